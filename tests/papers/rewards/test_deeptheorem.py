"""DeepTheorem: outcomes, constant verdicts, batches of separate variants, the process score, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import torch

from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.deeptheorem import (
    AXES,
    AllVariants,
    SeparateVariants,
    all_variants,
    deeptheorem,
    one_each,
    outcome,
    process_score,
)
from gradus.selection.filters import Everything, Informative
from gradus.tasks.puzzles.theorems import theorems, verify
from gradus.testing.methods import TOY, check_resumes, toy_group, toy_run, weights_after
from gradus.types import Frozen, Group, Key, UserError


def test_the_outcome_needs_every_verdict() -> None:
    assert [outcome(hits) for hits in ([1, 1, 0], [1, 1, 1], [0], [1])] == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("constant", ["proved", "disproved"])
def test_a_constant_verdict_earns_a_half_and_solves_no_theorem(constant: str) -> None:
    problems = [v for p in theorems().source.draw(range(40), None, Key(0)) for v in all_variants(p)]
    hits = [verify(p, f"\\boxed{{{constant}}}") for p in problems]
    assert sum(hits) / len(hits) == 0.5
    assert [outcome(hits[i : i + 4]) for i in range(0, len(hits), 4)] == [0.0] * 40


def answered(study, says):
    """The metrics of a study under answers by script."""

    class Memory:
        async def answer(self, recipe, requests, world):
            out = []
            for r in requests:
                right = float(verify(r.problem, f"\\boxed{{{says(r.problem)}}}"))
                (t,) = toy_group(right).trajectories
                out.append(Group(r.problem.id, (t.but(problem=r.problem),)))
            return out

    world = SimpleNamespace(task=theorems())
    return asyncio.run(study.measure(SimpleNamespace(memory=Memory()), deeptheorem, world))


def test_the_study_asks_all_variants_of_held_out_theorems() -> None:
    perfect = answered(AllVariants(10), lambda p: p.answer)
    assert (perfect["held_out/outcome"], perfect["held_out/accuracy"], perfect["held_out/problems"]) == (1.0, 1.0, 40)
    constant = answered(AllVariants(10), lambda p: "proved")
    assert (constant["held_out/outcome"], constant["held_out/accuracy"]) == (0.0, 0.5)
    one_wrong = answered(AllVariants(10), lambda p: p.answer if not p.id.endswith("/2") else "proved" if p.answer == "disproved" else "disproved")
    assert (one_wrong["held_out/outcome"], one_wrong["held_out/accuracy"]) == (0.0, 0.75)


def test_a_problem_without_variants_is_its_own_theorem() -> None:
    (problem,) = TOY.source.draw([0], None, Key(0))
    assert all_variants(problem) == [problem]
    made = all_variants(theorems().source.draw([3], None, Key(0))[0])
    assert [p.answer for p in made] == ["proved", "disproved"] * 2
    assert len({p.question for p in made} | {p.id for p in made}) == 8


def test_a_batch_has_balanced_labels_and_one_variant_of_a_theorem() -> None:
    task, part = theorems(), SeparateVariants()
    world = SimpleNamespace(seed=Key(0), note=lambda *pair: None, group=4, task=task)
    state = part.start()
    for _ in range(5):
        asked, state = part.choose(task.source, 16, world, state)
        labels = [r.problem.answer for r in asked]
        assert labels.count("proved") == 8
        assert len({r.problem.meta["theorem"] for r in asked}) == 16
        assert {r.count for r in asked} == {4}
    first = theorems().source.draw([0], None, Key(0))[0]
    other = first.__class__("other", "theorems", text="x", meta=Frozen(theorem=first.meta["theorem"]))
    free = first.__class__("free", "theorems", text="y")
    assert one_each([first, other, free]) == [first, free]


def test_the_process_score_by_hand() -> None:
    assert sum(AXES.values()) == pytest.approx(1.0)
    assert process_score(dict.fromkeys(AXES, 0.0) | {"validity": 1.0}) == 0.4
    assert process_score({"validity": 1.0, "completeness": 0.5, "correctness": 1.0, "clarity": 0.0}) == pytest.approx(0.75)


def test_without_its_batches_it_is_grpo_without_a_kl_term() -> None:
    plain = deeptheorem.but(curriculum=ShuffledEpochs(), selection=Everything())
    base = grpo.but(objective__kl=None, players__reference=None)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (plain, base))
    assert torch.equal(one, other)
    check_resumes(deeptheorem.but(setting__group=8))


def test_the_papers_numbers() -> None:
    assert (deeptheorem.setting.group, deeptheorem.selection, "kl" in deeptheorem.objective) == (64, Informative(), False)
    assert toy_run(deeptheorem).recipe.curriculum == SeparateVariants()
    with pytest.raises(UserError, match=r"AllVariants\.problems"):
        AllVariants(0)
