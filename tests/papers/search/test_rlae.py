"""RLAE: the weights and the borders of spans, the greedy limit, the verdict, refusals, frozen models, and what PPO reads."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradus.api import train
from gradus.credit.gae import GAE
from gradus.papers.bases.ppo import ppo
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.search.rlae import SpanMixture, encoding, rlae, softmax
from gradus.rollouts.auto import Auto
from gradus.rollouts.token_rules import MixtureOfModels
from gradus.testing.methods import TOY, scripted_world, toy_run
from gradus.types import Ended, Frozen, Key, Problem, Request, Sampling, UserError
from gradus.types.players import Copy, Fresh, Player
from gradus.types.spaces import Box

BESIDE = reinforce.but(players__one=Player(Copy("policy")), players__two=Player(Copy("policy")))


def test_the_encoding_and_the_weights_by_hand() -> None:
    found = encoding("aab", 1000)  # a twice, b, aa and ab once
    assert sorted(found[found > 0].tolist()) == pytest.approx([1 / 7**0.5] * 3 + [2 / 7**0.5])
    assert encoding("", 4).tolist() == [0.0] * 4
    assert not np.array_equal(encoding("3+4", 128), encoding("3*4", 128))
    assert softmax([np.log(0.7), np.log(0.3)]).tolist() == pytest.approx([0.7, 0.3])
    assert (softmax([1000.0, -1000.0]).tolist(), softmax([3.0, 3.0, 3.0]).sum()) == ([1.0, 0.0], pytest.approx(1.0))


def world_of_two(limit=7):
    """The world of toy models, where the models "one" and "two" prefer other tokens."""
    run = toy_run(BESIDE)
    with torch.no_grad():
        run.players["one"].policy.network.logits[:, 3] += 3.0
        run.players["one"].policy.network.logits[3, 4] += 9.0
        run.players["two"].policy.network.logits[:, 5] += 3.0
        run.players["two"].policy.network.logits[5, 6] += 9.0
    world = run.at(0)[1]
    world.sampling = replace(world.sampling, max_tokens=limit)
    return run, world


def written(world, scores, span=2):
    """The tokens of an answer with these scores for each span, the turns, and the requests of the spans."""
    asked, sample = [], world.sample

    async def watched(requests):
        asked.extend(requests)
        return await sample(requests)

    world.sample = watched

    async def play():
        episode = await SpanMixture(span=span).start(TOY.source.draw([1], None, Key())[0], Key(), world)
        turns = [episode.first]
        for row in scores:
            turns.append(await episode.step(np.array(row)))
            if turns[-1].terminated:
                break
        return episode.tokens.tolist(), turns

    tokens, turns = asyncio.run(play())
    world.sample = sample
    return tokens, turns, asked


@pytest.mark.parametrize("member", ["one", "two"])
def test_the_weight_1_gives_the_greedy_answer_of_a_model(member) -> None:
    _, world = world_of_two()
    sampling = Sampling(max_tokens=7, temperature=0.0)
    (group,) = asyncio.run(Auto().run([Request(TOY.source.draw([1], None, Key())[0], 1, member, sampling=sampling)], world))
    sign = 1.0 if member == "one" else -1.0
    tokens, _, _ = written(world, [[400 * sign, -400 * sign]] * 4)
    assert tokens == group.trajectories[0].contexts[0].tokens.tolist()
    assert written(world, [[-400 * sign, 400 * sign]] * 4)[0] != tokens


def test_the_weights_sum_to_1_and_change_only_between_spans() -> None:
    _, world = world_of_two()
    scores = [[1.0, 0.0], [-2.0, 2.0], [0.0, 0.0], [3.0, 1.0]]
    tokens, turns, asked = written(world, scores)
    assert [r.sampling.max_tokens for r in asked] == [2, 2, 2, 1][: len(asked)]
    assert len(asked) == -(-len(tokens) // 2)
    for row, request in zip(scores, asked, strict=False):
        weights = [request.how.weights[n] for n in ("one", "two")]
        assert weights == pytest.approx(softmax(row))
        assert min(weights) >= 0
        assert sum(weights) == pytest.approx(1.0)
        assert (request.sampling.temperature, request.trained) == (0.0, False)
    assert [turn.reward for turn in turns[:-1]] == [0.0] * (len(turns) - 1)
    assert (turns[-1].terminated, turns[-2].terminated) == (True, False)


def test_the_mixture_by_hand() -> None:
    rows = {"one": torch.tensor([[0.6, 0.4]]).log(), "two": torch.tensor([[0.1, 0.9]]).log()}
    assert MixtureOfModels(Frozen(one=0.7, two=0.3)).logits(rows, []).exp()[0].tolist() == pytest.approx([0.45, 0.55])


def scripted(texts, verify=None):
    """An episode whose spans have these texts; the last one ends."""
    given = iter(texts)
    task = TOY if verify is None else replace(TOY, verify=verify)
    world, _ = scripted_world(task, lambda ask: next(given), max_tokens=6)
    world.players.update({n: SimpleNamespace(**{**vars(world.players["policy"]), "name": n}) for n in ("one", "two")})
    sample = world.sample

    async def plain(requests):
        return await sample([replace(r, how=None) for r in requests])

    world.sample = plain
    return asyncio.run(SpanMixture(span=3).start(Problem("p", "toy", text="a", answer="b"), Key(), world)), world


def test_the_last_span_has_the_verdict() -> None:
    episode, _ = scripted(["zzzz", "b"])
    first = asyncio.run(episode.step(np.zeros(2)))
    assert (first.reward, first.terminated) == (0.0, False)
    assert np.array_equal(first.observation["state"], encoding("azzz", 128))
    last = asyncio.run(episode.step(np.zeros(2)))
    assert (last.reward, last.terminated) == (1.0, True)
    episode, _ = scripted(["zzzz", "zzzz"])  # the answer ends at the token limit
    assert not asyncio.run(episode.step(np.zeros(2))).terminated
    last = asyncio.run(episode.step(np.zeros(2)))
    assert (last.reward, last.terminated) == (0.0, True)
    episode, _ = scripted(["b"], verify=lambda problem, said: None)
    with pytest.raises(ValueError, match="no verdict"):
        asyncio.run(episode.step(np.zeros(2)))


def test_a_wrong_environment_is_refused() -> None:
    with pytest.raises(UserError, match=r"SpanMixture\.members"):
        SpanMixture(members=("one", "one"))
    with pytest.raises(UserError, match="no verifier"):
        SpanMixture().check_task(replace(TOY, verify=None))
    players = {n: SimpleNamespace(policy=SimpleNamespace(can=frozenset())) for n in ("one", "two")}
    with pytest.raises(UserError, match="gives no logits"):
        SpanMixture().check_players(players)


SMALL = rlae.but(study=None, setting__prompts=2, setting__group=2, setting__save_every=0, setting__warmup=0)


def test_its_parts_are_those_of_ppo() -> None:
    assert rlae.objective == ppo.objective
    assert rlae.update == ppo.update
    assert (rlae.objective["policy"].trust.low, rlae.objective["policy"].trust.high) == (0.2, 0.2)
    assert rlae.credit == GAE(gamma=1.0, lam=0.95)
    assert set(rlae.players) == {"policy", "critic", "one", "two"}
    assert rlae.players["policy"].model == Fresh()
    assert (SpanMixture().span, SpanMixture().acts) == (5, Box((-4.0, -4.0), (4.0, 4.0)))


def test_a_long_answer_ends_with_a_verdict() -> None:
    made = SMALL.but(environment=SpanMixture(span=1))
    run = train(made, task="arithmetic", task_options={"level": "1", "operations": "+"}, setting__steps=0, seed=1)
    world = run.at(0)[1]
    world.sampling = replace(world.sampling, max_tokens=30)
    for name in ("one", "two"):
        with torch.no_grad():  # all logits are 0, so the first token follows always and no answer ends early
            for p in run.players[name].policy.network.parameters():
                p.zero_()
    problem = run.task.source.draw([0], 1, Key())[0]
    (group,) = asyncio.run(run.recipe.rollout.run([Request(problem)], world))
    (one,) = group.trajectories
    assert (one.links["turns"], one.ended) == (30, Ended.ENVIRONMENT)


def test_the_models_stay_and_the_controller_learns() -> None:
    run = train(SMALL, task="arithmetic", task_options={"level": "1", "operations": "+"}, setting__steps=0, seed=1)
    before = {n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in run.players}
    run = train(SMALL, task="arithmetic", task_options={"level": "1", "operations": "+"}, setting__steps=2, seed=1)
    same = {n: all(map(torch.equal, before[n], (p.detach() for p in run.players[n].policy.network.parameters()))) for n in before}
    assert same == {"policy": False, "critic": False, "one": True, "two": True}
    assert {len(m) > 0 for m in run.metrics} == {True}
    weights = [[m[f"weight/{n}/+"] for n in ("one", "two")] for m in run.metrics if "weight/one/+" in m]
    assert weights
    assert all(sum(row) == pytest.approx(1.0) and min(row) >= 0 for row in weights)
    assert np.isfinite([m["reward"] for m in run.metrics]).all()
