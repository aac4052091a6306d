"""Spark-Prover-X1: the stages and their numbers, documents whose states are the checker's, proofs that are accepted, and GRPO without stages."""

from __future__ import annotations

import itertools

import pytest
import torch

import gradus
from gradus.papers.bases.expert_iteration import expert_iteration
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.data.spark_prover_x1 import proving, reading, spark_prover_x1
from gradus.recipe.core import changes
from gradus.rollouts.plain_text import PlainText
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.deduplicate import RightAndDistinct
from gradus.tasks.puzzles.proofs import proofs, verify
from gradus.tasks.text.string_ops import FUNCTIONS, string_ops
from gradus.testing.methods import toy_trajectory, weights_after
from gradus.types import Frozen, Group, Key, UserError
from gradus.types.media import words
from gradus.types.moments import Steps


def test_three_stages_with_the_numbers_of_the_row():
    stages = spark_prover_x1.schedule.stages
    assert set(changes(grpo, spark_prover_x1)) == {"schedule"}
    assert [(name, s.until) for name, s in stages.items()] == [("documents", Steps(100)), ("experts", Steps(3)), ("hard", Steps(100))]
    assert set(changes(sft, reading)) == {"rollout", "requires"}
    assert set(changes(expert_iteration, proving)) == {"setting.prompts", "setting.group"}
    assert (reading.rollout, proving.setting.group) == (PlainText(), 16)
    assert isinstance(proving.selection, RightAndDistinct)
    screen = stages["hard"].screen
    assert [screen.keeps(right / 16) for right in (0, 1, 8, 9, 16)] == [False, True, True, False, False]


@pytest.mark.parametrize(("written", "reward"), [("=cd", 1.0), ("ab>c cb>d=cd", 1.0), ("=d", 0.0), ("=sorry", 0.0), ("=csorryd", 0.0), ("ab>c sorry", 0.0)])
def test_a_proof_with_a_skipped_step_or_a_placeholder_earns_nothing(written, reward):
    problem = proofs().source.draw([0], 1, Key(0))[0]
    meta = Frozen({**problem.meta, "facts": "ab", "rules": (("ab", "c"), ("bc", "d")), "goal": "d"})
    assert verify(type(problem)("p", "proofs", answer="cd", meta=meta), written) == reward


def test_states_of_string_functions_are_those_of_the_verifier():
    kinds = set()
    for p in string_ops(documents=True).source.draw(range(60), 3, Key(0)):
        told = {kind: [words(m) for m in chat] for kind, chat in p.meta["documents"].items()}
        asked, answer = told["state"]
        name, _, word = asked.rstrip(")").partition("(")
        assert answer == f"={FUNCTIONS[name](word)}"
        values = [p.question.rpartition("(")[2].rstrip(")"), *p.meta["solution"].replace("=", " ").split()]
        assert (word, answer[1:]) in itertools.pairwise(values)
        assert told["proof"] == [p.question, p.meta["solution"]]
        kinds.add(name)
    assert len(kinds) > 4


def test_rounds_imitate_distinct_accepted_proofs_alone():
    answers = [toy_trajectory([2, 3], reward=r, name=str(i)) for i, r in enumerate((1.0, 1.0, 0.0))]
    rows = tuple(t.but(completion=text) for t, text in zip(answers, ("ab>c=c", "ab>c=c", "=d"), strict=True))
    kept, dropped = proving.selection.keep([Group("g", rows)], Key(0))
    assert [[t.id for t in g.trajectories] for g in kept] == [[answers[0].id]]
    assert not dropped


def test_without_stages_it_is_grpo():
    ours, plain = (weights_after(r, steps=3)["policy.logits"] for r in (spark_prover_x1.but(schedule=ConstantSchedule()), grpo))
    assert torch.equal(ours, plain)


@pytest.mark.nightly
def test_a_run_reads_then_proves_then_trains_on_what_is_hard():
    steps = {f"schedule__stages__{name}__until": Steps(1) for name in ("documents", "experts", "hard")}
    small = {**steps, "setting__prompts": 4, "setting__group": 2, "schedule__stages__experts__recipe__setting__prompts": 2, "study": None}
    small |= {"schedule__stages__hard__screen__problems": 16, "schedule__stages__hard__screen__samples": 8}
    run = gradus.train(spark_prover_x1, task="string_ops", task_options={"documents": "true", "level": "4"}, **small)
    assert [(row["stage"], "reward/document" in row) for row in run.metrics if "reward" in row] == [("documents", True), ("experts", False), ("hard", False)]


def test_a_task_without_documents_is_refused():
    with pytest.raises(UserError, match="documents"):
        gradus.train(spark_prover_x1, task="proofs", setting__prompts=2, setting__group=2)
