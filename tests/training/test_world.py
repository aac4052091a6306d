"""The world: batching over what waits, draws that depend on nothing else, judging, counting."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.rollouts.single_turn import SingleTurn
from gradus.testing.methods import TOY, toy_run, train_toy
from gradus.training.world import RunWorld
from gradus.types import Ended, Failed, Frozen, Group, Problem, Request, Sampling, Trajectory, UserError
from gradus.types.parts import Judgement
from gradus.types.signals import EntropyOf, LogProb, LogProbs


def world(**changes: Any) -> RunWorld:
    made = toy_run(grpo).at(3)[1]
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def ask(*names: str, count: int = 2, **more: Any) -> list[Request]:
    return [Request(Problem(n, "toy", text=n, answer="b"), count=count, **more) for n in names]


def test_everything_that_waits_is_sampled_in_one_batch():
    made, sizes = world(), []
    act = made.players["policy"].policy.act
    made.players["policy"].policy.act = lambda asks: sizes.append(len(asks)) or act(asks)

    async def both():
        return await asyncio.gather(made.sample(ask("a", "b")), made.sample(ask("c", count=3)))

    first, second = asyncio.run(both())
    assert sizes == [7]
    assert [len(row) for row in first + second] == [2, 2, 3]


def test_a_sample_depends_on_its_own_path_alone():
    alone = asyncio.run(world().sample(ask("b")))[0]
    company = asyncio.run(world().sample(ask("a", "b", "c")))[1]
    assert [c.tokens.tolist() for c in alone] == [c.tokens.tolist() for c in company]
    second = asyncio.run(world().sample(ask("b", count=1, sample=1)))[0][0]
    assert second.tokens.tolist() == alone[1].tokens.tolist()
    tagged = asyncio.run(world().sample(ask("b", tags=("other",))))[0]
    assert [c.tokens.tolist() for c in tagged] != [c.tokens.tolist() for c in alone]


def test_samples_of_a_request_share_their_prompt():
    a, b = asyncio.run(world().sample(ask("a")))[0]
    assert a.parent is not None
    assert b.parent is not None
    assert a.parent[0] is b.parent[0]


def test_fork_goes_on_from_a_token():
    made = world()

    async def forked():
        context = (await made.sample(ask("a", count=1, sampling=Sampling(max_tokens=9))))[0][0]
        return context, await made.fork(context, 2, 3, tags=("x",), problem=Problem("a", "toy", text="a"))

    context, children = asyncio.run(forked())
    assert [c.prefix.tolist() for c in children] == [context.sequence[:2].tolist()] * 3
    assert len({tuple(c.tokens) for c in children}) > 1


def test_a_fork_within_the_prompt_is_refused():
    made = world()

    async def forked():
        asked = Request(Problem("a", "toy", text="abc"), sampling=Sampling(max_tokens=9))
        context = (await made.sample([asked]))[0][0]
        assert context.parent is not None
        child = (await made.fork(context, context.parent[1] + 1, 1, tags=("x",), problem=asked.problem))[0]
        return context, child, [made.fork(c, at, 1, tags=("y",), problem=asked.problem) for c, at in ((context, 0), (child, 0))]

    async def all_of():
        context, child, within = await forked()
        start = len(context.prefix)
        assert len(child.prefix) == start + 1
        for fork in within:
            with pytest.raises(UserError, match=rf"has at=0, but the prompt alone has {start} tokens; .*context.parent\[1\] \+ k"):
                await fork

    asyncio.run(all_of())


def test_the_same_problem_twice_in_a_step_has_draws_and_ids_of_its_own():
    class Few(type(TOY.source)):
        size = 2

    made = toy_run(grpo, task=replace(TOY, source=Few())).at(3)[1]
    requests = asyncio.run(made.more(5)) + asyncio.run(made.more(1))
    assert len({r.problem.id for r in requests}) == 2
    assert len({(r.problem.id, *r.tags) for r in requests}) == 6
    groups = asyncio.run(SingleTurn().run(requests, made))
    assert len({t.id for g in groups for t in g.trajectories}) == sum(r.count for r in requests)
    same = [g for g in groups if g.trajectories[0].problem.id == "toy/0"]
    drawn = {tuple(tuple(t.contexts[0].tokens) for t in g.trajectories) for g in same}
    assert len(drawn) == len(same)


def broken(act):
    made = world()
    made.players["policy"].policy.act = act
    return made


def refuse(asks):
    raise RuntimeError("no memory")


@pytest.mark.parametrize(("act", "error"), [(refuse, "no memory"), (lambda asks: [], "zip")])
def test_a_policy_that_fails_ends_all_that_wait_and_leaves_no_error_behind(act, error):
    made, left = broken(act), []

    async def sampled():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: left.append(context["message"]))
        with pytest.raises((RuntimeError, ValueError), match=error):
            await asyncio.wait_for(made.sample(ask("a", "b", "c")), 5)
        gc.collect()

    asyncio.run(sampled())
    gc.collect()
    assert left == []


def test_the_pool_holds_what_the_trajectories_hold():
    made = world()
    act = made.players["policy"].policy.act
    made.players["policy"].policy.act = lambda asks: [replace(c, logprobs=c.logprobs * np.float32("nan")) for c in act(asks)]
    (group,) = asyncio.run(SingleTurn().run(ask("a"), made))
    assert all(t.failed for t in group.trajectories)
    assert group.pool == tuple(t.reward for t in group.trajectories)


def test_tokens_are_counted_by_purpose():
    made = world()
    trained, probe = asyncio.run(made.sample(ask("a", count=1) + ask("b", count=1, trained=False)))
    assert made.spent == {"rollout": trained[0].actions, "probe": probe[0].actions}


def test_score_keeps_the_order_of_contexts():
    made = world()
    contexts = [c for row in asyncio.run(made.sample(ask("a", "b", "c"))) for c in row]
    made.players["policy"].policy.micro = 2
    rows = asyncio.run(made.score(contexts, LogProb()))
    for context, row in zip(contexts, rows, strict=True):
        np.testing.assert_allclose(row, context.logprobs, atol=1e-6)
    assert all(len(r) == c.actions for r, c in zip(asyncio.run(made.score(contexts, EntropyOf())), contexts, strict=True))


def test_own_logprobs_as_sampled_cost_nothing():
    made = world()
    groups = asyncio.run(SingleTurn().run(ask("a"), made))
    before = dict(made.spent)
    found = asyncio.run(made.signals(groups, [LogProbs()]))[LogProbs()]
    assert made.spent == before
    assert {t.id for g in groups for t in g.trajectories} == set(found)


def test_a_signal_is_read_once():
    made = world()
    groups = asyncio.run(SingleTurn().run(ask("a", "b"), made))
    first = asyncio.run(made.signals(groups[:1], [LogProbs(player="reference")]))[LogProbs(player="reference")]
    before = made.spent["score/reference"]
    both = asyncio.run(made.signals(groups, [LogProbs(player="reference")]))[LogProbs(player="reference")]
    assert made.spent["score/reference"] - before == sum(len(t.contexts[0].sequence) for t in groups[1].trajectories)
    assert all(both[i].tolist() == rows.tolist() for i, rows in first.items())
    table = made.players["reference"].policy.network.logits.log_softmax(-1).detach().numpy()
    for t in groups[1].trajectories:
        sequence = t.contexts[0].sequence
        np.testing.assert_allclose(both[t.id], [table[a, b] for a, b in pairwise(sequence)], rtol=1e-5)


class Strict:
    """Fails the second trajectory of each group."""

    needs: ClassVar[tuple] = ()

    async def score(self, groups: Any, signals: Any, world: Any) -> list[list[Judgement]]:
        return [
            [Judgement(Failed("no") if i == 1 else 0.5, Frozen(half=0.5), ((0, 0, "step", 0.25),)) for i in range(len(g.trajectories))]
            for g in groups
        ]


def test_judging_fills_rewards_components_and_the_pool():
    made = world(reward=Strict())
    (group,) = asyncio.run(SingleTurn().run(ask("a", count=3), made))
    assert [t.failed for t in group.trajectories] == [None, "no", None]
    assert group.pool == (0.5, Failed("no"), 0.5)
    assert group.trajectories[0].contexts[0].rewards == ((0, "step", 0.25),)
    assert group.trajectories[0].ended in (Ended.STOP, Ended.LENGTH)


def test_a_prompt_longer_than_the_context_is_named():
    made = world()
    with pytest.raises(UserError, match=r"problem long has 300 tokens and leaves no room for the answer in the model's context of 256"):
        asyncio.run(made.sample([Request(Problem("long", "toy", text="a" * 300))]))


def test_an_error_of_the_policy_reaches_who_asked():
    made = world(task=TOY)
    made.players["policy"].policy.act = lambda asks: 1 / 0
    with pytest.raises(ZeroDivisionError):
        asyncio.run(made.sample(ask("a")))


def test_the_verbs_are_those_of_the_player():
    world = toy_run(grpo).world(grpo, "train")
    context = world.opening("b")
    assert context.tokens.tolist() == [1]
    assert world.told("bc").tokens.tolist() == [1, 2, 0]
    assert world.said(context.then(world.told("bc")), 1) == "bc"
    assert world.follow("c", context).chosen.tolist() == [False]


def test_an_operation_of_an_older_version_names_the_one_in_its_place():
    world = toy_run(grpo).world(grpo, "train")
    with pytest.raises(UserError, match=r"write world\.opening\(prompt, player\)"):
        world.tokens("b")
    with pytest.raises(UserError, match=r"write world\.told\(text, player\)"):
        world.completion_tokens("b")
    with pytest.raises(UserError, match=r"world\.follow\(observation, after, player\)"):
        world.follow("b", "policy")
    with pytest.raises(AttributeError, match="no attribute sing"):
        world.sing()


def test_a_player_that_is_not_there_is_named():
    with pytest.raises(UserError, match=r'unknown player "writer"; known: policy'):
        asyncio.run(world().sample(ask("a", player="writer")))


def test_progress_is_the_share_of_the_steps_that_are_over():
    run = toy_run(grpo, steps=8)
    run.step = 2
    assert run.world(run.recipe, "train").progress == 0.25
    run.step = 8
    assert run.world(run.recipe, "evaluate").progress == 1.0


def test_what_a_part_notes_is_a_metric_of_its_step():
    @dataclass(frozen=True)
    class Noting(SingleTurn):
        async def run(self, requests, world):
            for value in (world.step, world.step + 3):
                world.note("seen", value)
            return await super().run(requests, world)

    rows = []
    train_toy(grpo.but(rollout=Noting()), steps=2, watch=lambda run, metrics, groups: rows.append(metrics["seen"]))
    assert rows == [1.5, 2.5]  # means of (0, 3) and (1, 4)


def test_what_failed_is_told_and_what_the_clock_decided_is_forgotten_where_the_run_is_refused() -> None:
    """Done again, the step obeys what was decided; done again after a refusal, it asks."""
    kept: list[tuple[str, str]] = []
    told: list[tuple[str, list[str]]] = []
    facts = {"train/f/1/0": "timed out: late", "act/policy": "64", "train/g/1/0": ""}
    made = world(_decided=lambda call, reason: kept.append((call, reason)), _quarantine="run/quarantine.jsonl")
    made._facts = {call: reason for call, reason in facts.items() if reason}
    made._failed = lambda purpose, failed: told.append((purpose, [t.id for t in failed]))
    assert made.fact("train/g/1/0") is None
    assert made.refused() == "; each failure is in run/quarantine.jsonl"
    assert kept == [("train/f/1/0", "")]
    made.reward = Judges()
    groups = asyncio.run(SingleTurn().run(ask("a", count=2), made))
    assert told == [("train", [groups[0].trajectories[1].id])]


class Judges:
    needs = ()

    async def score(self, groups: Any, signals: Any, world: Any) -> Any:
        return [[Judgement(1.0), Judgement(Failed("no"))] for _ in groups]


@dataclass(frozen=True)
class WithHelper(SingleTurn):
    """Asks a sub-agent for a look at each problem, in an order that differs from that of the requests."""

    trained: bool = True

    async def run(self, requests, world):
        for request in reversed(requests):
            (row,) = await world.sample([replace(request, tags=("helper",), count=1, trained=self.trained)])
            helper = Trajectory(f"helper/{request.problem.id}", request.problem, tuple(row), completion="b", trained=self.trained)
            world.also([Group(f"helper/{request.problem.id}", (helper,))])
        return await super().run(requests, world)


def test_groups_beside_are_judged_trained_and_not_counted():
    run = train_toy(grpo.but(rollout=WithHelper()), steps=1)
    row = run.metrics[0]
    assert row["aside/groups"] > 0
    plain = train_toy(grpo, steps=1).metrics[0]
    assert (row["reward"], row["accuracy"], row["length"]) == (plain["reward"], plain["accuracy"], plain["length"])
    assert row["aside/reward"] is not None
    made = world()
    requests = ask("b", "a", count=1)
    asyncio.run(WithHelper().run(requests, made))
    groups = asyncio.run(made.aside())
    assert [g.key for g in groups] == ["helper/a", "helper/b"]  # by key, whatever the order in time
    assert all(g.aside and g.trajectories[0].reward is not None for g in groups)
    assert asyncio.run(made.aside()) == []


def test_groups_beside_that_are_not_trained_change_no_weight():
    plain, beside = (train_toy(grpo.but(rollout=r), steps=2) for r in (SingleTurn(), WithHelper(trained=False)))
    weights = [[p.detach().clone() for p in run.players["policy"].policy.network.parameters()] for run in (plain, beside)]
    assert all(bool((a == b).all()) for a, b in zip(*weights, strict=True))
    assert beside.metrics[0]["tokens/probe"] > 0


def test_groups_of_one_key_are_one_group():
    made = world()
    (row,) = asyncio.run(made.sample(ask("a", count=2)))
    one, two = (Trajectory(name, Problem("a", "toy", text="a", answer="b"), (c,)) for name, c in zip(("x/1", "x/0"), row, strict=True))
    made.also([Group("helper", (one,))])
    made.also([Group("other", (one,)), Group("helper", (two,))])
    groups = asyncio.run(made.aside())
    assert [(g.key, [t.id for t in g.trajectories], len(g.pool)) for g in groups] == [("helper", ["x/0", "x/1"], 2), ("other", ["x/1"], 1)]
    assert all(t.reward is not None for g in groups for t in g.trajectories)


def test_a_trajectory_given_twice_is_refused():
    made = world()
    (row,) = asyncio.run(made.sample(ask("a", count=1)))
    group = Group("helper", (Trajectory("helper", Problem("a", "toy", text="a", answer="b"), tuple(row)),))
    made.also([group, group])
    with pytest.raises(UserError, match=r"trajectory helper was passed to world.also twice"):
        asyncio.run(made.aside())


def test_evaluation_drops_groups_beside():
    made = world(purpose="held_out")
    made.also([Group("helper", ())])
    assert asyncio.run(made.aside()) == []


def test_what_is_made_once_is_shared_within_the_step():
    made, calls = world(), []

    async def slow(name):
        calls.append(name)
        await asyncio.sleep(0)
        if name == "broken":
            raise UserError("no")
        return [name]

    async def asked(*names):
        return await asyncio.gather(*(made.once(name, lambda name=name: slow(name)) for name in names), return_exceptions=True)

    first, other, second, *broken = asyncio.run(asked("a", "b", "a", "broken", "broken"))
    assert calls == ["a", "b", "broken"]
    assert first is second
    assert (first, other) == (["a"], ["b"])
    assert all(isinstance(error, UserError) for error in broken)
    assert asyncio.run(asked("a"))[0] is first
    asyncio.run(made.again(1).once("a", lambda: slow("a")))
    assert calls == ["a", "b", "broken", "a"]  # a later round makes its own
