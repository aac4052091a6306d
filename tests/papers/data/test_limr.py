"""LIMR: the score of a learning curve, gaps, the problems that a recorded run selects, and its limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradus
from gradus.credit.gae import GAE
from gradus.credit.kl_penalty import KLPenalty
from gradus.papers.bases.ppo import ppo
from gradus.papers.data.limr import LearningImpact, impact, limr
from gradus.recipe.core import changes
from gradus.schedules.stages import FIRST
from gradus.testing.methods import toy_group
from gradus.types import Ended, Failed, Group, Key, Problem
from gradus.types.moments import Steps


def test_the_score_by_hand() -> None:
    # average .3 .5 .6; squares (.04 + 0 + .09) / (.49 + .25 + .16) = .13 / .90
    found = impact(np.array([[0.1, 0.5, 0.9], [0.5, 0.5, 0.3]]))
    assert found[0] == pytest.approx(1 - 0.13 / 0.90)
    assert found[0] == pytest.approx(0.8556, abs=1e-4)


def test_an_average_curve_scores_1_and_an_always_solved_one_0() -> None:
    curves = np.array([[0.25, 0.5], [1.0, 1.0], [0.0, 0.5], [0.0, 0.0], [0.0, 0.5]])
    assert curves.mean(0).tolist() == [0.25, 0.5]
    scores = impact(curves)
    assert scores[:2].tolist() == [1.0, 0.0]
    assert scores[3] == pytest.approx(1 - (0.0625 + 0.25) / (0.5625 + 0.25))  # never solved
    assert impact(np.ones((3, 2))).tolist() == [0, 0, 0]


def visits(curves: dict[str, list[float | None]]) -> list[Group]:
    """Groups of ten answers, pass by pass. None: all answers of this visit failed."""
    out = []
    for k in range(max(map(len, curves.values()))):
        for name, curve in curves.items():
            if k < len(curve):
                rate = curve[k]
                made = toy_group(*([1.0] * round(10 * (rate or 0)) + [0.0] * (10 - round(10 * (rate or 0)))), key=f"{name}/{k}")
                problem = Problem(name, "toy", ({"role": "user", "content": name},))
                reward = Failed("no") if rate is None else None
                kept = (t.but(problem=problem, completion="x", **({} if reward is None else {"reward": reward})) for t in made.trajectories)
                out.append(made.but(trajectories=tuple(kept)))
    return out


def selected(groups: list[Group], **terms: float) -> dict[str, float]:
    return {row["problem"].id: row["impact"] for row in LearningImpact(**terms).rows(iter(groups))}


def test_the_selection_reads_passes() -> None:
    curves = {"a": [0.1, 0.5, 0.9], "b": [0.5, 0.5, 0.3], "solved": [1.0, 1.0, 1.0], "never": [0.0, 0.0, 0.0]}
    found = selected(visits(curves), theta=-np.inf)
    assert found == pytest.approx(dict(zip(curves, impact(np.array(list(curves.values()))), strict=True)))
    assert set(selected(visits(curves))) == {"a", "b"}
    assert set(selected(visits(curves), theta=0.5, unsolved=True)) >= {"a", "b"}
    assert "never" in selected(visits(curves), theta=0.0, unsolved=True)
    assert "never" not in selected(visits(curves), theta=0.0)


def test_gaps_and_an_unfinished_pass() -> None:
    gap = selected(visits({"a": [0.1, None, 0.9], "b": [0.5, 0.5, 0.3], "c": [0.5, 0.5, None]}), theta=-np.inf)
    assert gap == pytest.approx(dict(zip("ab", impact(np.array([[0.1, 0.9, 0.9], [0.5, 0.5, 0.3]])), strict=True)))
    late = selected(visits({"a": [0.1, 0.5, 0.9], "b": [0.5, 0.5]}), theta=-np.inf)
    assert late == pytest.approx(dict(zip("ab", impact(np.array([[0.1, 0.5], [0.5, 0.5]])), strict=True)))
    assert selected([]) == {}


def test_an_answer_that_a_limit_cut_off_counts_as_wrong() -> None:
    groups = visits({"a": [0.5, 0.5], "b": [0.5, 1.0]})
    cut = [g.but(trajectories=tuple(t if t.right else t.but(ended=Ended.LENGTH) for t in g.trajectories)) for g in groups]
    assert selected(cut, theta=-np.inf) == selected(groups, theta=-np.inf) == pytest.approx(dict(zip("ab", impact(np.array([[0.5, 0.5], [0.5, 1.0]])), strict=True)))


def test_wrongly_labelled_problems_are_left_out() -> None:
    # a third is solved from the start, a third is learned, and a third has wrong labels: right only by accident
    passes = np.linspace(0, 1, 12)
    rates = {f"{kind}{i}": kind for kind in ("trivial", "learnable", "wrong") for i in range(30)}
    truth = {"trivial": 0.97 + 0 * passes, "learnable": 0.2 + 0.7 * passes, "wrong": 0.03 * (1 - passes)}
    curves: dict[str, list[float | None]] = {n: [float(np.mean(Key(1).fold(n, k).uniform(10) < p)) for k, p in enumerate(truth[kind])] for n, kind in rates.items()}
    found = selected(visits(curves))
    shares = {kind: sum(name.startswith(kind) for name in found) / 30 for kind in truth}
    assert shares["wrong"] <= 0.2
    assert shares["learnable"] >= 0.6
    assert shares["trivial"] <= 0.2


def test_its_second_stage_starts_afresh_on_the_selected_problems(tmp_path: Path) -> None:
    quick = {"schedule__stages__record__until": Steps(4), "schedule__stages__train__until": Steps(1), "curriculum__pool": 8}
    found = gradus.train(
        limr, task="arithmetic", task_options={"level": "2"}, run=tmp_path / "run", study=None, setting__prompts=4, setting__group=4, setting__eval_every=0,
        setting__warmup=0, schedule__stages__record__makes=LearningImpact(theta=0.9), **quick,
    )  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "run" / "made" / "record.jsonl").read_text().splitlines()]
    assert 0 < len(rows) < 8
    assert all(row["impact"] >= 0.9 for row in rows)
    assert list(dict.fromkeys(metrics["stage"] for metrics in found.metrics)) == ["record", "train"]


def test_what_it_changes() -> None:
    paths = {"credit.coefficient", "curriculum", "schedule", "setting.temperature", "update.epochs"}
    assert set(changes(ppo, limr)) == paths
    assert limr.credit == KLPenalty(GAE(gamma=1.0, lam=0.95), 0.01, "k1")
    assert (limr.update.epochs, limr.setting.temperature) == (1, 1.2)
    record, train = limr.schedule.stages.values()
    assert (record.makes, train.start, train.task) == (LearningImpact(theta=0.6), FIRST, "made:record")
    assert record.until == train.until == Steps(84)  # 21 passes over 64 problems, 16 in a step


def test_without_stages_and_with_new_problems_it_is_ppo_with_its_numbers() -> None:
    from gradus.curricula.shuffled_epochs import ShuffledEpochs

    plain = limr.but(schedule=ppo.schedule, curriculum=ShuffledEpochs(), setting__temperature=None, update__epochs=4, credit=ppo.credit)
    assert changes(ppo, replace(plain, key="ppo", base=ppo.base, parent=ppo.parent)) == {}
