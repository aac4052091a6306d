"""Answers whose reward failed: no credit rule, filter or update sees them, all are in the quarantine, and a run goes on as if they had not been."""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradus.credit
import gradus.papers
import gradus.selection
from benchmarks.rewards import measure
from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.selection.filters import without_failures
from gradus.testing.methods import toy_trajectory
from gradus.training.lessons import with_credit
from gradus.training.loop import merged
from gradus.types import NOT_APPLICABLE, Failed, FailureKind, Frozen, Group, Key, Trajectory
from gradus.types.batch import make_batch
from gradus.types.returned import remembers
from gradus.workers.pool import stop_workers
from tests.parts import APART, OF_ROWS
from tests.small_model import save_small_model

pytestmark = pytest.mark.alone

LOST = (
    Failed("late", FailureKind.TIMEOUT),
    Failed("raised ValueError", FailureKind.RAISED),
    Failed("returned nan"),
    Failed("killed", FailureKind.DIED),
    Failed("full", FailureKind.MEMORY),
    NOT_APPLICABLE,
    float("nan"),
    None,
)


def parts(package: Any, method: str) -> Iterator[type]:
    """Every part of a package that has the method and can be made without arguments, from whichever module."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for made in vars(importlib.import_module(found.name)).values():
            if isinstance(made, type) and made.__module__ == found.name and is_dataclass(made) and hasattr(made, method):
                yield made


def variants(part: type) -> Iterator[Any]:
    """The part with its defaults, and once for every other choice of a field that is one of a few words."""
    yield part()
    hints = typing.get_type_hints(part)
    for field in fields(part):
        words = [
            w
            for h in (hints[field.name], *typing.get_args(hints[field.name]))
            if typing.get_origin(h) is typing.Literal
            for w in typing.get_args(h)
        ]
        yield from (part(**{field.name: word}) for word in words if word != field.default)


ROWS = set().union(*OF_ROWS.values(), *APART.values())  # rules that read streams of other trajectories than these answers
RULES = [v for package in (gradus.credit, gradus.papers) for part in parts(package, "assign") if part.__name__ not in ROWS for v in variants(part)]
FILTERS = [v for package in (gradus.selection, gradus.papers) for part in parts(package, "keep") for v in variants(part) if not remembers(v)]
"""Filters without a state: what a replay keeps has its own tests."""


DIFFERING = {
    *("OwnAnswers", "NotAllRight", "NotOneSided", "WithoutVoidTurns", "Informative", "Mixed", "BestAndWorst", "Consecutive", "RankedPairs", "RightWrongPair"),
    "ResampleOnCorrect",
}
"""Filters that keep a group only where its answers differ, so none of one answer."""


def one(name: str, reward: Any, rng: np.random.Generator) -> Trajectory:
    """An episode of two turns, each of one or two tokens, with a reward at its first turn."""
    lengths = rng.integers(1, 3, 2)
    total = int(lengths.sum())
    made = toy_trajectory([2] * total, name=name, logprobs=rng.normal(size=total).tolist())
    streams = {"turn": np.repeat([0, 1], lengths), "state": np.repeat([7, 8], lengths), "valid": np.ones(total, bool), "span": np.zeros(total, int)}
    (context,) = made.contexts
    placed = ((int(lengths[0]) - 1, "environment", 0.25),)
    return made.but(
        contexts=(replace(context, streams=Frozen(streams), rewards=placed),), reward=reward, components=Frozen(verified=reward)
    )


def made() -> tuple[list[Group], list[Group]]:
    """Groups in which 5 of 8, 1 of 4, none of 4 and all of 3 have a reward; and the same groups as if the others had never been sampled."""
    rng, lost = np.random.default_rng(0), itertools.cycle(LOST)
    plan = {"five": [1.0, None, 0.0, None, 0.5, 1.0, None, 0.0], "one": [None, 1.0, None, None], "none": [None] * 4, "all": [0.0, 1.0, 1.0]}
    groups, survivors = [], []
    for key, rewards in plan.items():
        row = tuple(one(f"{key}/{i}", next(lost) if r is None else r, rng) for i, r in enumerate(rewards))
        groups.append(Group(key, row, tuple(t.reward for t in row if t.reward is not None)))
        kept = tuple(t for t, r in zip(row, rewards, strict=True) if r is not None)
        if kept:
            survivors.append(Group(key, kept, tuple(t.value for t in kept)))
    return groups, survivors


def signals(needs: Any, groups: list[Group]) -> dict[Any, dict[str, np.ndarray]]:
    """A row for every trajectory; those of answers that failed are poison."""
    rows = {}
    for n, need in enumerate(needs):
        rng = np.random.default_rng(n)
        rows[need] = {t.id: rng.normal(size=t.actions).astype(np.float32) for g in groups for t in g.trajectories}
        for t in (t for g in groups for t in g.trajectories if t.failed is not None):
            rows[need][t.id][:] = np.nan
    return rows


def test_there_are_rules_and_filters() -> None:
    assert {type(r).__name__ for r in RULES} >= {
        "GroupRelative",
        "LeaveOneOut",
        "BatchRelative",
        "ProbeBaseline",
        "RewardToGo",
        "GAE",
        "KLPenalty",
        "Clipped",
    }
    assert {type(f).__name__ for f in FILTERS} >= {"Informative", "Mixed", "Best", "BestAndWorst", "MeanReward", "Everything"}


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_credit_rule_gives_what_it_gives_without_the_answers_that_failed(rule: Any) -> None:
    groups, survivors = made()
    seen = signals(rule.needs, groups)
    found, due = rule.assign(without_failures(groups), seen), rule.assign(survivors, seen)
    assert [[c.advantages.tobytes() for c in row] for row in found] == [[c.advantages.tobytes() for c in row] for row in due]
    assert [len(row) for row in found] == [5, 1, 3]
    assert all(np.isfinite(c.advantages).all() and (c.returns is None or np.isfinite(c.returns).all()) for row in found for c in row)
    kept = with_credit(without_failures(groups), found)
    stored = {t.id: t for g in merged(groups, kept) for t in g.trajectories}
    assert len(stored) == 19
    assert all((t.advantages is None) == (t.failed is not None) for t in stored.values())
    assert [t.id for t in make_batch(kept, {}).trajectories] == [t.id for g in survivors for t in g.trajectories]
    assert rule.assign(without_failures([groups[2]]), seen) == []  # nothing is left of the step


WITHIN = {
    *("GroupRelative", "LeaveOneOut", "ProbeBaseline", "AnchorStates", "Clipped", "KLPenalty", "Scaled", "Uncut", "Within", "Blended", "VirtualBest", "PrefixTree"),
    *("Divergence", "PoolBaseline", "JointReturns", "Sharpened", "MasteredMask", "AgainstOwn", "Aligned"),
    *("Guided", "FlooredRelative", "CentredFailures"),
}
"""Rules that compare an answer with the others of its group; BatchRelative does so by its baseline. The rest compare with more, or with nothing."""
SILENT = {"LogReward", "PromptReturns", "KeyOutcomes"}
"""Rules that compare nothing and give 0 here all the same: the logarithm of a reward of 1, returns without advantages, and
returns without key turns."""


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_of_a_group_of_one_nothing_is_left_where_answers_of_a_group_are_compared(rule: Any) -> None:
    groups, _ = made()
    seen = signals(rule.needs, groups)
    within = type(rule).__name__ in WITHIN or (isinstance(rule, BatchRelative) and rule.baseline != "batch")
    (alone,) = rule.assign(without_failures(groups), seen)[1]
    assert np.any(alone.advantages) != (within or type(rule).__name__ in SILENT)
    assert rule.assign(without_failures([groups[2]]), seen) == []  # a group of none is not there


@pytest.mark.parametrize("part", FILTERS, ids=repr)
def test_a_filter_sees_none_of_them_and_bears_groups_of_one(part: Any) -> None:
    groups, survivors = made()
    kept, dropped = part.keep(without_failures(groups), Key(0))
    due, _ = part.keep(survivors, Key(0))
    assert [[t.id for t in g.trajectories] for g in kept] == [[t.id for t in g.trajectories] for g in due]
    assert all(t.failed is None for g in (*kept, *dropped) for t in g.trajectories)
    (single,) = without_failures([groups[1]])
    assert len(part.keep([single], Key(0))[0]) == (type(part).__name__ not in DIFFERING)
    assert part.keep(without_failures([groups[2]]), Key(0)) == ([], [])


def test_ten_kinds_of_failing_calls() -> None:
    """The benchmark, small, each kind once; its bound of time is for machines that do nothing else."""
    figures, missed = measure(200, 10, limit=4.0, workers=2, work=0.0, retries=0, at_once=1)
    assert [text for text in missed if not text.startswith("it took")] == []
    assert (figures["quarantined"], figures["in update"]) == (10, 190)
    ended = {kind: figures[f"ended: {kind}"] for kind in ("timed out", "died", "invalid", "out of memory")}
    # hang and spin; exit, abort and fork; print. Those that raise or return nonsense end no process.
    assert ended.items() >= {"timed out": 2, "died": 3, "invalid": 1}.items()
    assert ended["out of memory"] >= 1  # once more for every process that had answered before: what was left in it may have been the cause
    assert (figures["hangs"], figures["kills"]) == (2, sum(ended.values()))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    torch.set_num_threads(1)
    save_small_model(tmp_path / "model")
    (tmp_path / "problems.jsonl").write_text(
        "".join(json.dumps({"prompt": f"say {i}", "answer": str(i), "mark": i}) + "\n" for i in range(20))
    )
    yield tmp_path
    stop_workers()


BODY = """
import os, pathlib

def score(completions, mark, trainer_state, **kwargs):
    for i, m in enumerate(mark):
        {fault}
    return [float(len(c) % 3) for c in completions]
"""


def train(home: Path, fault: str, *more: str) -> int:
    (home / "reward.py").write_text(BODY.replace("{fault}", fault))
    given = [
        "train",
        "grpo",
        "--task",
        home / "problems.jsonl",
        "--model",
        home / "model",
        "--run",
        home / "run",
        "--reward",
        f"{home}/reward.py:score",
    ]
    return main(
        [
            *map(str, given),
            "--steps",
            "2",
            "--prompts",
            "4",
            "--group",
            "2",
            "--max_tokens",
            "4",
            "--save_every",
            "1",
            "--study.problems",
            "2",
            *more,
        ]
    )


def test_failed_answers_are_in_the_quarantine_once_also_after_a_resume(home: Path) -> None:
    fault = "if m % 2 and trainer_state.global_step == 1: raise ValueError('odd')"
    assert train(home, fault, "--max_failed", "1") == 0
    folder = RunFolder.open(home / "run")
    failed = {t.id: t for _, g in folder.rollouts() for t in g.trajectories if t.failed}
    stored = [r for r in folder.quarantine() if r["purpose"] == "train"]
    assert [r["trajectory"] for r in stored] == list(failed)
    assert stored
    for r in stored:
        t = failed[r["trajectory"]]
        assert (r["step"], r["kind"], r["problem"], r["completion"]) == (1, "raised", t.problem.id, t.completion)
        assert r["reason"] == t.failed == "raised ValueError: odd (reward.py, line 6)"
        assert json.loads(r["meta"])["mark"] % 2 == 1
    before = (home / "run" / "quarantine.jsonl").read_bytes()
    for path in (home / "run" / "checkpoints").glob("step-000002"):
        (path / "manifest.json").unlink()  # so that step 1 is done again
    assert main(["resume", str(home / "run")]) == 0
    assert (home / "run" / "quarantine.jsonl").read_bytes() == before


def test_a_run_that_is_refused_says_where_they_are_and_goes_on_when_the_cause_is_mended(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(
        home, f"if not pathlib.Path({str(home / 'licence')!r}).exists(): os._exit(4)", "--reward.retries", "0", "--study", "none"
    ) in (2,)
    said = capfd.readouterr().err
    assert "the most common reason: ended with exit code 4; each failure is in" in said
    folder = RunFolder.open(home / "run")  # kept, though no step was done
    assert len({r["trajectory"] for r in folder.quarantine()}) == 8
    assert {r["kind"] for r in folder.quarantine()} == {"died"}
    assert folder.facts(0)
    (home / "licence").touch()
    assert main(["resume", str(home / "run")]) == 0
    assert [row["failed"] for row in folder.metrics() if "failed" in row] == [0, 0]
