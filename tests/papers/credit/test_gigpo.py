"""GiGPO: both comparisons by hand, a loop in frozen lake, and that without the second one it is GRPO."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.api import train
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.gigpo import AnchorStates, LegalReturn, by_state, gigpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.episodes import Episodes
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.tasks.games.lake_environment import FrozenLake, find, picture, planes
from gradus.testing.methods import TOY, TOY_EPISODES, scripted_context, scripted_world, toy_group, train_toy, turn_of, weights_after
from gradus.training.world import judged
from gradus.types import Failed, Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.batch import make_batch
from gradus.types.parts import Task
from gradus.types.players import Fresh
from gradus.types.signals import LogProb, LogProbs

TWO = tuple(
    replace(
        scripted_context("x" * len(turns)),
        streams=Frozen(turn=np.array(turns, np.int32), state=np.array(turns, np.int64), valid=np.array(valid, bool)), rewards=rewards,
    )
    for turns, valid, rewards in (
        ([0, 0, 1, 2, 2], [1, 1, 0, 0, 0], ((1, "environment", 0.5), (4, "other", 9.0))),
        ([3, 3], [0, 0], ((1, "environment", 0.25),)),
    )
)  # fmt: skip
"""The contexts of an episode whose turns 1, 2 and 3 are illegal."""


def legal(trajectory, penalty):
    (row,) = asyncio.run(LegalReturn(penalty).score([Group("g", (trajectory,))], {}, None))
    return row[0]


def test_illegal_actions_cost_their_price_where_they_end() -> None:
    trajectory = Trajectory("t", Problem("p", "t"), TWO)
    judgement = legal(trajectory, 0.25)
    assert judgement.reward == 0.0  # 0.75 - 3 x 0.25
    assert dict(judgement.components) == {"environment": 0.75, "invalid": -0.75}
    assert judgement.steps == ((0, 2, "invalid", -0.25), (0, 4, "invalid", -0.25), (1, 1, "invalid", -0.25))
    after = judged(trajectory, judgement)
    assert sum(value for c in after.contexts for _, name, value in c.rewards if name in ("environment", "invalid")) == after.value
    assert dict(legal(trajectory, 0.0).components) == {"environment": 0.75}
    assert legal(trajectory.but(reward=Failed("lost")), 0.25).reward == Failed("lost")
    fine = trajectory.but(contexts=(replace(TWO[0], streams=Frozen({**TWO[0].streams, "valid": np.ones(5, bool)})),))
    assert dict(legal(fine, 0.25).components) == {"environment": 0.5, "invalid": 0.0}
    assert gigpo.reward == LegalReturn(0.01)
    with pytest.raises(UserError, match=r"LegalReturn\.invalid_penalty"):
        LegalReturn(-0.1)


def episode(name, states, rewards, *, lengths=None):
    """An episode with a context for each step; rewards are those of the steps, and R is their sum."""
    lengths = lengths or [1] * len(states)
    contexts = []
    for t, (state, reward, n) in enumerate(zip(states, rewards, lengths, strict=True)):
        streams = Frozen(turn=np.full(n, t), state=np.full(n, state))
        contexts.append(replace(scripted_context("a" * n), streams=streams, rewards=((n - 1, "environment", reward),) if reward else ()))
    return Trajectory(name, Problem("p", "t"), tuple(contexts), reward=math.fsum(rewards))


def assigned(rule, *episodes):
    return [c.advantages.tolist() for c in rule.assign([Group("g", episodes)], {})[0]]


def test_steps_of_one_state_by_hand():
    # mean of .9025, 0, .95 is .6175
    assert_close(by_state(np.array([5, 5, 5]), np.array([0.9025, 0, 0.95]), scale="none"), np.array([0.285, -0.6175, 0.3325]))


def test_the_same_returns_from_episodes():
    # gamma .95: the state 5 is met two steps before a reward of 1 (.9025), where nothing follows (0), and one step before it (.95)
    made = [episode("a", [5, 1, 2], [0, 0, 1]), episode("b", [5, 3], [0, 0]), episode("c", [5, 4], [0, 1])]
    whole = np.array([1, 0, 1]) - 2 / 3
    rows = assigned(AnchorStates(), *made)
    assert_close(np.array([r[0] for r in rows]), whole + np.array([0.285, -0.6175, 0.3325]))
    assert [r[1:] for r in rows] == [[whole[0]] * 2, [whole[1]], [whole[2]]]  # these states occur once


def test_episodes_by_hand():
    made = [episode(str(i), [i], [r]) for i, r in enumerate([1, 1, 0, 0])]  # no state occurs twice
    assert assigned(AnchorStates(), *made) == [[0.5], [0.5], [-0.5], [-0.5]]
    assert assigned(AnchorStates(scale="population"), *made) == [[1], [1], [-1], [-1]]


def test_both_comparisons_are_scaled_alike():
    # in state 5 returns 1 and 0: mean .5, deviation .5, so +-1; the episodes have 1 and 0 too: +-1; omega .25
    made = [episode("a", [5], [1]), episode("b", [5], [0])]
    assert assigned(AnchorStates(scale="population", omega=0.25), *made) == [[1.25], [-1.25]]


def test_every_token_of_a_step_has_its_advantage():
    made = [episode("a", [5, 1], [0, 1], lengths=[2, 3]), episode("b", [5], [0], lengths=[1])]
    # R 1, 0: +-.5; state 5: returns .95 and 0, mean .475
    assert assigned(AnchorStates(), *made) == [[0.975, 0.975, 0.5, 0.5, 0.5], [-0.975]]


def test_a_state_met_twice_in_one_episode_is_compared_with_itself():
    (row,) = assigned(AnchorStates(gamma=0.5), episode("a", [5, 5, 6], [0, 0, 1]))
    assert row == [-0.125, 0.125, 0.0]  # a group of one has no A^E; returns .25 and .5


def test_groups_are_not_compared_with_each_other():
    a, b = episode("a", [5], [1]), episode("b", [5], [0])
    rows = AnchorStates().assign([Group("g", (a,)), Group("h", (b,))], {})
    assert [c.advantages.tolist() for row in rows for c in row] == [[0.0], [0.0]]


STEPS = st.lists(st.tuples(st.integers(0, 3), st.floats(-2, 2)), min_size=1, max_size=12)


@given(STEPS, st.sampled_from(["none", "population"]))
@example([(0, -2.0), (0, -1.9999999999999998)], "population")  # rounding alone
def test_a_state_s_advantages_sum_to_nothing(steps, scale):
    states, returns = (np.array(column) for column in zip(*steps, strict=True))
    found = by_state(states, returns, scale=scale)
    assert all(abs(found[states == s].sum()) < 1e-6 for s in set(states.tolist()))
    assert all(found[i] == 0 for i in range(len(states)) if (states == states[i]).sum() == 1)


def lake(*ways):
    """Episodes on P.G, each saying these moves."""
    task = Task("lake", TOY.source, TOY.held_out, environment=FrozenLake())
    problem = Problem("p", "lake", ({"role": "user", "content": "go"},), meta=Frozen(map=("P.G",)))
    world, _ = scripted_world(task, lambda ask: ways[ask.request.sample][turn_of(ask)], reward=gigpo.reward)
    (found,) = asyncio.run(gigpo.rollout.run([Request(problem, count=len(ways))], world))
    return found


def test_leaving_a_loop_is_worth_more_than_staying_in_it():
    found = lake(["left", "right", "right"], ["right", "right"], ["left", "left", "what", "right", "right"])
    rows = [
        [float(c.advantages[np.flatnonzero(t.stream("turn") == n)[0]]) for n in range(t.links["turns"])]
        for t, c in zip(found.trajectories, gigpo.credit.assign([found], {})[0], strict=True)
    ]
    stay, leave, _ = rows[0]
    assert stay < leave  # both in the first cell, in one episode that succeeded
    assert max(rows[2][:3]) < rows[2][3]


def test_an_illegal_action_is_worth_less_than_a_useless_one():
    found = lake(["left", "right", "right"], ["what", "right", "right"])
    useless, illegal = (float(c.advantages[0]) for c in gigpo.credit.assign([found], {})[0])
    # R 1 and .99: +-.005; in the first cell returns are .9025, .95 and -.01 + .9025, .95: mean .92375, so -.02125 and -.03125
    assert (useless, illegal) == (pytest.approx(0.005 - 0.02125), pytest.approx(-0.005 - 0.03125))


def test_an_illegal_action_costs_a_hundredth_of_success():
    found = lake(["right", "right"], ["what", "right", "right"])
    assert [t.value for t in found.trajectories] == [1.0, 0.99]
    assert [t.right for t in found.trajectories] == [True, True]
    wrong = found.trajectories[1]
    assert [c.rewards for c in wrong.contexts] == [((4, "invalid", -0.01),), (), ((5, "environment", 1.0),)]  # at the end tokens


def test_a_tenth_of_all_rewards_and_of_the_kl_weight_is_a_tenth_of_the_gradient():
    """Success 10, price 0.1 and KL 0.01, as in the paper, against success 1, price 0.01 and KL 0.001."""
    slopes = []
    for scale in (1.0, 10.0):
        made = [episode("a", [5, 1], [-0.01 * scale, 1 * scale], lengths=[2, 3]), episode("b", [5], [0], lengths=[1])]
        credited = [t.but(advantages=c.advantages) for t, c in zip(made, gigpo.credit.assign([Group("g", tuple(made))], {})[0], strict=True)]
        reference = {"a": np.linspace(-2, 0, 5), "b": np.array([-0.5])}
        batch = make_batch([Group("g", tuple(credited))], {LogProbs(player="reference"): reference}, dtype=torch.float64)
        logprobs = torch.linspace(-1, -0.2, 6, dtype=torch.float64).requires_grad_()
        terms = gigpo.but(objective__kl__coefficient=gigpo.objective["kl"].coefficient * scale).objective
        evaluate(terms, {LogProb(): logprobs}, batch)[0].backward()
        slopes.append(logprobs.grad)
    assert gigpo.objective["kl"].coefficient == 0.001
    assert_close(10 * slopes[0], slopes[1])


def test_each_step_is_a_sample_with_the_last_two_turns():
    found = lake(["left", "left", "left", "right", "right"])
    (made,) = found.trajectories
    assert [c.actions for c in made.contexts] == [5, 5, 5, 6, 6]
    assert (
        len({len(c.prefix) for c in made.contexts[2:]}) == 2
    )  # the window is full from the third step on; the last moves differ in length


def test_the_loss_equals_plain_loops():
    made = [episode("a", [5, 1], [0, 1], lengths=[2, 3]), episode("b", [5], [0], lengths=[1])]
    credited = tuple(
        t.but(advantages=c.advantages) for t, c in zip(made, gigpo.credit.assign([Group("g", tuple(made))], {})[0], strict=True)
    )
    rng = np.random.default_rng(2)
    reference = {"a": rng.normal(size=5), "b": rng.normal(size=1)}
    batch = make_batch([Group("g", credited)], {LogProbs(player="reference"): reference}, dtype=torch.float64)
    batch = replace(batch, old={LogProb(): torch.from_numpy(rng.normal(size=6))})
    logprobs = batch.old_logprobs + torch.from_numpy(rng.normal(size=6) * 0.4)
    loss, _ = evaluate(gigpo.objective, {LogProb(): logprobs}, batch)
    total, at = 0.0, 0
    for t in credited:
        done = 0
        for context in t.contexts:
            for _ in context.tokens:
                new, old, ref, a = logprobs[at].item(), batch.old_logprobs[at].item(), reference[t.id][done], t.advantages[done]
                ratio, d = math.exp(new - old), ref - new
                policy = -min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
                total += (policy + 0.001 * (math.exp(d) - d - 1)) / len(context.tokens) / 3  # 3 steps in all
                at, done = at + 1, done + 1
    assert_close(loss.item(), total)


def test_without_the_second_comparison_it_is_grpo():
    plain = gigpo.but(
        credit__omega=0.0,
        credit__scale="population",
        rollout=Auto(),
        reward=Verified(),
        objective__policy__average=SequenceMean(),
        objective__kl=grpo.objective["kl"],
        update=grpo.update,
    )
    ours, base = (weights_after(r, steps=2, task=TOY_EPISODES)["policy.logits"] for r in (plain, grpo))
    assert torch.equal(ours, base)
    credits = [AnchorStates(omega=0.0, scale="population"), grpo.credit]
    made = [episode(str(i), [5, 5], [0, r]) for i, r in enumerate([1, 0, 0.5])]
    assert assigned(credits[0], *made) == assigned(credits[1], *made)


def test_two_steps_and_more_of_the_loop():
    seen = []
    run = train_toy(
        gigpo,
        task=TOY_EPISODES,
        steps=12,
        prompts=3,
        group=8,
        learning_rate=0.3,
        watch=lambda run, metrics, groups: seen.append((metrics, groups)),
    )
    assert run.players["policy"].updates == 12 * 8
    assert 0 < np.mean([metrics["clip_share"] for metrics, _ in seen]) < 0.3
    rewards = [metrics["reward"] for metrics, _ in seen]
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.15
    episodes = [t for _, groups in seen[:2] for g in groups for t in g.trajectories]
    assert all(len(t.contexts) == t.links["turns"] for t in episodes)
    assert any(len(set(t.advantages.tolist())) > 1 for t in episodes)


def test_a_task_without_states_is_refused():
    with pytest.raises(UserError, match="has no turns"):
        gigpo.credit.assign([toy_group(1, 0)], {})
    with pytest.raises(UserError, match="has no environment"):
        train_toy(gigpo, task=TOY, steps=1)
    assert gigpo.rollout == Episodes(history=2)


MODELS = {"text": None, "image": None, "array": Fresh(hidden=(8,))}
"""How the lake is shown -> the model of the policy; None: the built-in one."""


@pytest.fixture(scope="module")
def plays():
    """A language model, a picture-reading model and a controller on the same maps: (run, groups of both steps) by how the lake is shown."""
    found = {}
    for show, model in MODELS.items():
        own = {} if model is None else {"players__policy__model": model}
        small = gigpo.but(study=None, setting__prompts=2, setting__group=3, setting__save_every=0, update__count=2, **own)
        seen = []
        run = train(small, frozen_lake(level=1, show=show), steps=2, on_step=lambda run, row, groups, seen=seen: seen.extend(groups))
        found[show] = run, seen
    return found


def test_three_kinds_of_models_play_by_one_recipe(plays):
    """Nothing of the recipe differs but the model of the policy."""
    stored = [run.recipe for run, _ in plays.values()]
    assert changes(stored[0], stored[1]) == {}
    assert changes(stored[0], stored[2]) == {"players.policy.model": MODELS["array"]}
    kinds = [type(run.players["policy"].policy).__name__ for run, _ in plays.values()]
    assert kinds == ["LanguageModel", "LanguageModel", "Controller"]
    assert [sorted(run.players["policy"].policy.reads) for run, _ in plays.values()] == [["text"], ["image", "text"], ["array"]]


def test_they_are_shown_the_same_maps(plays):
    maps = [[t.problem.meta["map"] for g in groups for t in g.trajectories] for _, groups in plays.values()]
    starts = [[t.contexts[0].streams["state"][0] for g in groups for t in g.trajectories] for _, groups in plays.values()]
    assert maps[0] == maps[1] == maps[2]
    assert starts[0] == starts[1] == starts[2]  # equal states have equal names, however they are shown
    assert len(maps[0]) == 12  # two steps of two problems, three episodes each


@pytest.mark.parametrize("show", MODELS)
def test_each_learns_from_both_comparisons(show, plays):
    run, groups = plays[show]
    assert run.players["policy"].updates == 2 * 2
    for t in (t for g in groups for t in g.trajectories):
        assert t.failed is None
        assert t.links["turns"] == len(t.contexts)  # history 2: one context a turn
        assert all({"turn", "state", "valid"} <= c.streams.keys() for c in t.contexts)
        assert t.advantages is not None
        if show == "array":
            assert all(action in ("up", "down", "left", "right") for action in t.completion.split("\n"))
    within = [len(set(t.advantages.tolist())) for g in groups for t in g.trajectories]
    assert max(within) > 1  # steps of one episode differ: the comparison of states acts


def test_what_they_are_shown_is_the_state_in_text_in_pixels_or_in_planes(plays):
    for show, (_, groups) in plays.items():
        t = groups[0].trajectories[0]
        grid = t.problem.meta["map"]
        start = find(grid, "P")
        seen = t.contexts[0].shown
        if show == "text":
            assert seen == ()
        else:
            due = picture(grid, start) if show == "image" else planes(grid, start)
            assert np.array_equal(seen[0].rows[0], due)
