"""GTR: thoughts and actions, the corrector, the buffer, both gradients, the format reward, and PPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.ppo import ppo
from gradus.papers.guidance.gtr import STREAM, ActionFound, Corrected, ThoughtWeight, WorkedThought, gtr, thought_of
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.feedback import WrittenCritique
from gradus.testing.methods import (
    TOY,
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    loss_and_gradient,
    readable,
    scripted_world,
    toy_group,
)
from gradus.types import Frozen, Key, Request, UserError

PROBLEMS = [replace(p, id=f"p{i}", meta=Frozen(solution="c+1 =d"), text="c", answer="d") for i, p in enumerate(TOY.source.draw(range(5), None, Key(0)))]


def played(answers, *, state=None, rollout=gtr.rollout, problems=PROBLEMS[:1], step=3):
    said = iter(answers)
    world, _ = scripted_world(TOY, lambda ask: "k+k" if ask.request.player == "critic" else next(said), reward=Verified(), step=step)
    world.players["critic"] = world.players["policy"]
    requests = [Request(p, count=len(answers) // len(problems)) for p in problems]
    groups, state = asyncio.run(rollout.run(requests, world, state or rollout.start()))
    return groups, asyncio.run(world.aside()), state, world


def test_thoughts_end_before_the_last_mark() -> None:
    assert [thought_of(text, "=") for text in ("7+5=12 =12", "=12", "no mark")] == ["7+5=12 ", "", "no mark"]
    (group,), _, _, _ = played(["a=b =d", "=d", "abc"])
    rows = [t.contexts[0].streams[STREAM].tolist() for t in group.trajectories]
    assert rows == [[True] * 4 + [False] * 3, [False] * 3, [True] * 4]


def test_the_corrector_keeps_a_fine_thought_and_replaces_others() -> None:
    _, others, state, world = played(["k+1 =d", "k+1 =x", "=d", "=x"])
    texts = sorted(t.completion for g in others for t in g.trajectories)
    assert texts == ["c+1 "] * 3 + ["k+1 "]  # right and with content: unchanged
    assert (world.notes["thoughts/fine"], world.notes["thoughts/distinct"]) == (0.25, 0.5)
    (t,) = others[0].trajectories
    assert (t.source, readable(t.contexts[0].prefix), t.contexts[0].actions) == ("expert", "c", 4)  # no end token, no action
    assert len(state["corrections"]["units"]) == 4
    with pytest.raises(UserError, match='has no "solution"'):
        played(["x"], problems=[replace(PROBLEMS[0], meta=Frozen())])


def test_the_buffer_aggregates_all_steps() -> None:
    answers = ["k =d", "=x"] * 5
    _, first, state, _ = played(answers, problems=PROBLEMS)
    assert (len(first), len(state["corrections"]["units"])) == (10, 10)
    _, second, state, _ = played(answers, problems=PROBLEMS, state=state, step=4)
    assert (len(second), len(state["corrections"]["units"])) == (10, 20)
    ids = [t.id for g in second for t in g.trajectories]
    assert len(set(ids)) == 10
    assert {name.split("/")[2] for name in ids} == {"3", "4"}  # corrections of both steps
    _, third, state, _ = played(answers, problems=PROBLEMS, state=state, rollout=Corrected(size=12), step=5)
    assert len(state["corrections"]["units"]) == 12
    assert "3" not in {t.id.split("/")[2] for g in third for t in g.trajectories}  # the oldest are removed
    _, others, state, _ = played(answers, problems=PROBLEMS, rollout=Corrected(share=0.5))
    assert (len(others), len(state["corrections"]["units"])) == (5, 10)


def test_a_player_as_corrector() -> None:
    _, others, _, _ = played(["x =x"], rollout=Corrected(corrector=WrittenCritique(form="{problem} {attempt}")))
    assert [t.completion for g in others for t in g.trajectories] == ["k+k"]


def marked(thoughts):
    group = toy_group(1, 0)
    rows = iter(np.array(thoughts, bool).reshape(2, 2))
    return group.but(trajectories=tuple(t.but(contexts=tuple(replace(c, streams=Frozen({STREAM: next(rows)})) for c in t.contexts)) for t in group.trajectories))


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_the_policy_gradient_on_thoughts_is_scaled(lam: float) -> None:
    """Ratio 1, A = 1 and -1, a mean over 4 tokens."""
    term = replace(gtr.objective["policy"], weight=ThoughtWeight(lam))
    _, gradient, _ = loss_and_gradient({"policy": term}, [marked([1, 0, 1, 0])], [0.0] * 4, advantages=[1, -1])
    assert gradient == pytest.approx([-lam / 4, -1 / 4, lam / 4, 1 / 4])


def test_imitation_has_no_tokens_of_actions() -> None:
    _, others, _, _ = played(["x =x"])
    _, gradient, _ = loss_and_gradient({"thoughts": gtr.objective["thoughts"]}, others, [-1.0] * 4)
    assert gradient == pytest.approx([-0.25] * 4)  # "c+1 "


def test_an_answer_without_an_action_is_fined() -> None:
    group = toy_group(1, 1)
    group = group.but(trajectories=tuple(t.but(completion=text) for t, text in zip(group.trajectories, ("a =b", "a b"), strict=True)))
    ((one, other),) = asyncio.run(ActionFound().score([group], {}, None))
    assert (one.reward, other.reward, dict(other.components)) == (0.0, -1.0, {"format": -1.0})


def test_without_corrections_it_is_ppo() -> None:
    own = gtr.but(rollout=Corrected(share=0.0), objective__policy__weight=ThoughtWeight(1.0), reward=Verified())
    check_same_update(own, ppo)
    check_different_update(gtr, ppo)
    check_micro_batches(gtr)
    check_resumes(gtr, steps=2, after=1)


def test_the_numbers_and_what_is_refused() -> None:
    assert gtr.objective["policy"].weight == ThoughtWeight(0.5)
    assert gtr.objective["thoughts"] == Imitation(average=SequenceMean(), source="expert")
    assert (gtr.update.epochs, gtr.rollout.corrector) == (4, WorkedThought())
    assert gtr.reward == Verified() + ActionFound()
    assert isinstance(gtr.rollout.test, Auto)
    with pytest.raises(UserError, match=r"Corrected\.mark"):
        Corrected(mark="")
    with pytest.raises(UserError, match=r"ThoughtWeight\.lam"):
        ThoughtWeight(2)
