"""Con-RAG: likeness by hand, its cheaper estimate, the groups of a set, and GRPO without paraphrases."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards import con_rag_ps_grpo as module
from gradus.papers.rewards.con_rag_ps_grpo import SET, Likeness, con_rag_ps_grpo, drawn, inconsistency, paraphrases_of
from gradus.recipe.core import changes
from gradus.rollouts.auto import Auto
from gradus.tasks.text.paraphrased import paraphrased
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Key, Problem, Request, UserError


def judged(reward: Likeness, *answers: list[str], name: str = "q") -> list[Group]:
    world, _ = scripted_world(TOY, lambda ask: "")
    groups = []
    for i, texts in enumerate(answers):
        problem = Problem(f"{name}-{i}", "toy", text="a", answer="red", meta=Frozen({SET: name}))
        groups.append(Group(f"{name}{i}", tuple(toy_trajectory([2], name=f"{i}/{j}").but(problem=problem, completion=f"={c}") for j, c in enumerate(texts))))
    found = asyncio.run(reward.score(groups, {}, world))
    return [
        g.but(trajectories=tuple(t.but(reward=j.reward, components=j.components) for t, j in zip(g.trajectories, row, strict=True)))
        for g, row in zip(groups, found, strict=True)
    ]


def test_the_reward_and_the_advantages_by_hand() -> None:
    one, two = judged(Likeness(None, None, "exact"), ["x", "y"], ["x", "x"])
    assert (one.rewards.tolist(), two.rewards.tolist()) == ([1.0, 0.0], [0.5, 0.5])
    assert advantages_of(con_rag_ps_grpo.credit, one, two) == [[[1.0], [-1.0]], [[0.0], [0.0]]]


def test_the_own_paraphrase_never_enters() -> None:
    one, two = judged(Likeness(None, None, "exact"), ["x", "x"], ["y", "z"])
    assert (one.rewards.tolist(), two.rewards.tolist()) == ([0.0, 0.0], [0.0, 0.0])


def test_the_stored_answer_may_count() -> None:
    one, _ = judged(Likeness(None, None, "exact", accuracy=0.5), ["red", "x", "red blue"], ["x"])
    assert one.rewards.tolist() == pytest.approx([0.5, 1.0, 0.5 * 2 / 3])  # "red blue": precision 1/2, recall 1
    assert [t.components["accuracy"] for t in one.trajectories] == pytest.approx([1.0, 0.0, 2 / 3])
    assert judged(Likeness(None, None, "exact"), ["red"], ["x"])[0].rewards.tolist() == [0.0]


@pytest.mark.parametrize(("kappa", "s", "calls"), [(3, 2, 144), (None, None, 480)])
def test_the_number_of_comparisons(kappa: int | None, s: int | None, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    measures = Frozen({**module.MEASURES, "exact": lambda a, b: float(bool(counted.append(a) or a == b))})
    monkeypatch.setattr(module, "MEASURES", measures)
    judged(Likeness(kappa, s, "exact"), *[["a", "b", "c", "a"]] * 6)  # n = 6, g = 4
    assert len(counted) == calls


def test_the_cheaper_estimate_has_the_same_mean() -> None:
    others = [["x", "y", "x", "z"], ["y", "y", "x", "z"], ["z", "x", "x", "x"], ["y", "z", "z", "z"], ["x", "y", "y", "y"]]
    full = Likeness(None, None, "exact").likeness("x", others, Key(0))
    assert full == pytest.approx(7 / 20)
    few = [Likeness(3, 2, "exact").likeness("x", others, Key(i)) for i in range(1000)]
    assert np.mean(few) == pytest.approx(full, abs=0.02)  # type: ignore[arg-type]
    assert len(set(few)) > 3
    assert drawn("ab", 5, Key(0)) == ["a", "b"]


def test_a_request_becomes_one_per_paraphrase() -> None:
    (problem,) = paraphrased().source.draw([0], None, Key(0))
    asked = paraphrases_of(Request(problem, count=3))
    assert [r.problem.question for r in asked] == list(problem.meta["paraphrases"])
    assert {r.problem.meta[SET] for r in asked} == {problem.id}
    assert len({r.problem.id for r in asked}) == len(asked) == 4
    assert isinstance(con_rag_ps_grpo.rollout.test, Auto)


def test_answers_of_other_questions_do_not_count() -> None:
    world, _ = scripted_world(TOY, lambda ask: "")
    rows = [toy_trajectory([2], name=n).but(problem=Problem(n, "toy", text="a", answer="b", meta=Frozen({SET: n})), completion="=b") for n in "pq"]
    ((one,), _) = asyncio.run(Likeness().score([Group(t.id, (t,)) for t in rows], {}, world))
    assert (one.reward, dict(one.components)) == (1.0, {"verified": 1.0})  # the verdict


def test_inconsistency_by_hand() -> None:
    assert inconsistency([["a"], ["a"], ["b"]]) == pytest.approx(2 / 3)
    assert inconsistency([["a", "b"], ["b", "c"]]) == pytest.approx(2 / 3)


def test_without_paraphrases_it_is_grpo() -> None:
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (con_rag_ps_grpo, grpo))
    assert torch.equal(one, other)
    assert set(changes(grpo, con_rag_ps_grpo)) == {"reward", "rollout", "setting.group"}
    assert (con_rag_ps_grpo.reward, con_rag_ps_grpo.objective["kl"].coefficient) == (Likeness(3, 2, "bleu", 0.0), 0.04)
    check_micro_batches(con_rag_ps_grpo)
    with pytest.raises(UserError, match="measure"):
        Likeness(measure="blue")
