"""The verdict of a claim, the comparison that measures it, the distance of weights, and the control of a recipe against itself."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradus.comparison import claim_runs
from gradus.comparison.claim_runs import distance, judged, measure, measured_figures, terms, weight_figures
from gradus.comparison.claims import Known, known
from gradus.comparison.compare import Comparison
from gradus.comparison.ground import grounds
from gradus.comparison.job import carry_out
from gradus.comparison.worker import Lines
from gradus.recipe.claim import Claim
from gradus.types import UserError

SHORT = {"prompts": "2", "group": "2", "max_tokens": "2", "study": "none"}
CLAIM = Claim(says="It learns faster.", source="ours", against="rloo", task="arithmetic", better_by=0.02, fields=SHORT, budget="steps=1", seeds=2)


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float64)[:, None]


def bounded(**bound: float) -> Claim:
    return replace(CLAIM, better_by=None, **bound)


@pytest.mark.parametrize(
    ("differences", "better_by", "said"),
    [
        ([0.05, 0.06, 0.07], 0.02, "seen"),  # mean 0.06, half width 4.303 * 0.01 / sqrt(3) = 0.025
        ([0.05, 0.06, 0.07], 0.10, "not seen"),  # better, but by less than claimed
        ([-0.05, 0.06, 0.07], 0.02, "not seen"),  # the interval holds 0
        ([-0.05, -0.06, -0.07], 0.02, "opposite"),
        ([-5.0, -6.0, -7.0], -4.0, "seen"),  # less is better
        ([5.0, 6.0, 7.0], -4.0, "opposite"),
        ([0.0, 0.0, 0.0], 0.0, "not seen"),
    ],
)
def test_verdict_of_a_difference(differences, better_by, said):
    found = judged(replace(CLAIM, better_by=better_by), column(*differences), column(*[0.0] * len(differences)))
    assert found.verdict == said


def test_interval_is_students():
    found = judged(CLAIM, column(1.05, 1.06, 1.07), column(1, 1, 1))
    assert (round(found.figure, 4), round(found.low, 4), round(found.high, 4)) == (0.06, 0.0352, 0.0848)


@pytest.mark.parametrize(
    ("ratios", "bound", "said"),
    [
        ([0.40, 0.42, 0.44], {"at_most": 0.5}, "seen"),
        ([0.60, 0.62, 0.64], {"at_most": 0.5}, "not seen"),  # fewer, but not half
        ([1.6, 1.62, 1.64], {"at_most": 0.5}, "opposite"),
        ([2.0, 2.1, 2.2], {"at_least": 1.5}, "seen"),
        ([0.5, 0.51, 0.52], {"at_least": 1.5}, "opposite"),
        ([1.0, 1.01, 1.0], {"at_most": 1.05}, "seen"),  # the upper end, 1.018, is below the bound
        ([1.02, 1.06, 1.02], {"at_most": 1.05}, "not seen"),  # the mean is below the bound, the upper end is not
        ([1.2, 1.21, 1.2], {"at_most": 1.05}, "opposite"),
    ],
)
def test_verdict_of_a_ratio(ratios, bound, said):
    assert judged(bounded(**bound), 7 * column(*ratios), column(*[7.0] * 3)).verdict == said


def test_a_ratio_is_the_geometric_mean_of_seeds():
    found = judged(bounded(at_most=0.9), column(1, 4), column(2, 16))  # ratios 1/2 and 1/4: the mean is 1/sqrt(8)
    assert found.figure == pytest.approx(1 / math.sqrt(8))
    with pytest.raises(UserError, match="compares a ratio, which needs a measure above 0, but reward:mean is 0 in a run; write `better_by`"):
        judged(replace(bounded(at_most=0.9), measure="reward:mean"), column(0, 1), column(1, 1))


def test_a_recipe_against_itself_is_seen_at_most_once_in_twenty():
    """Simulated figures of two arms that are one recipe: problems with their own pass rates, seeds with their own deviation, 3 to 5 seeds."""
    draws = np.random.default_rng(7)
    seen, trials = 0, 600
    for trial in range(trials):
        seeds, problems, samples = 3 + trial % 3, 60, 4
        rates = draws.beta(1.5, 1.5, size=problems)
        arms = [
            draws.binomial(samples, np.clip(rates + draws.normal(0, 0.05, size=(seeds, 1)), 0, 1), size=(seeds, problems)) / samples
            for _ in range(2)
        ]
        seen += judged(replace(CLAIM, better_by=0.0), *arms).verdict == "seen"
    assert 0 < seen <= trials // 20  # the bound of 0 asks for the sign alone, the most that chance can give


def test_the_terms_are_those_of_the_claim():
    claim = replace(CLAIM, own={"credit.scale": "none"}, against="rloo --warmup 2", options={"level": "2"}, measure="pass@16")
    made = terms(Known("grpo", claim, None))
    assert [(arm.recipe, arm.fields) for arm in made.arms] == [("grpo", (("credit.scale", "none"),)), ("rloo", (("warmup", "2"),))]
    assert (made.task, made.task_options, dict(made.fields), made.seeds) == ("arithmetic", (("level", "2"),), SHORT, (0, 1))
    assert (str(made.budget), made.measure, made.problems, made.samples) == ("steps=1", "pass@16", 100, 16)
    assert terms(Known("grpo", replace(CLAIM, measure="entropy:last"), None)).problems == 1
    assert len(terms(Known("grpo", replace(CLAIM, against=None), None)).arms) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": "3 steps"}, '--budget is "3 steps"'),
        ({"measure": "acuracy"}, 'unknown measure "acuracy"'),
        ({"against": "grpo"}, "the arm grpo is given twice"),
        ({"script": "benchmarks.mine"}, "has its own measuring program in the source tree; use python -m benchmarks.mine"),
    ],
)
def test_refused_before_anything_runs(changes, said, tmp_path):
    with pytest.raises(UserError, match=said):
        measure(Known("grpo", replace(CLAIM, **changes), None), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_every_claim_of_the_tree_can_be_measured():
    """Each claim without a program of its own gives the plan of every run, or names a ground that exists."""
    assert {of.claim.ground for of in known()} - {None} <= set(grounds())
    for of in known():
        if of.claim.script is None and of.claim.ground is None:
            made = terms(of)
            for arm in made.arms:
                made.plan(arm, 0)


def exam(*right: int) -> dict[str, Any]:
    return {"final": {"samples": 4, "right": list(right)}}


def test_figures_of_a_comparison():
    made = Comparison(terms(Known("grpo", CLAIM, None)), Path("none"), {"grpo": {0: exam(4, 2), 1: exam(4, 4)}, "rloo": {0: exam(0, 0), 1: exam(0, 2)}})
    found = measured_figures(CLAIM, made)
    assert (found["recipe"], found["against"], found["figure"]) == ([0.75, 1.0], [0.0, 0.25], 0.75)
    # seeds 0.75 and 0.75 do not differ; problems (1, 0.5): se = sqrt(0.125 / 2) = 0.25, half width t(1) 12.706 * 0.25
    assert found["interval"] == pytest.approx([0.75 - 3.1766, 0.75 + 3.1766], abs=1e-3)
    assert found["verdict"] == "not seen"


def test_the_distance_of_weights():
    a, b = ({"policy": {"w": torch.tensor([1.0, x]), "n": torch.zeros(0)}, "critic": {"w": torch.ones(1)}} for x in (2.0, 2.5))
    assert distance(a, b) == 0.5
    assert distance(a, {"policy": {"w": torch.tensor([1.0, 2.0])}}) == 0.0
    with pytest.raises(UserError, match="share no tensor"):
        distance(a, {"other": {}})
    with pytest.raises(UserError, match=r"policy.w has the shape \(2,\) in one arm and \(1,\) in another, so the"):
        distance(a, {"policy": {"w": torch.ones(1)}})


@pytest.mark.parametrize(("ends", "verdict"), [((3.0, 3.0), "seen"), ((3.0, 3.5), "not seen"), ((1.0, 1.0), "not seen")])
def test_equal_weights_must_have_moved(ends, verdict, monkeypatch):
    claim = bounded(within=0.1)
    made = Comparison(terms(Known("grpo", claim, None)), Path("none"))

    class Player:
        def tensors(self) -> dict[str, torch.Tensor]:
            return {"w": torch.ones(1)}

    class Run:
        players = {"policy": Player()}

    found = {"grpo": ends[0], "rloo": ends[1]}
    monkeypatch.setattr(claim_runs.api, "start", lambda plan: Run)
    monkeypatch.setattr(claim_runs, "final_weights", lambda folder: {"policy": {"w": torch.tensor([found[folder.name.partition("-")[0]]])}})
    told = weight_figures(claim, made)
    assert (told["verdict"], told["figure"], told["moved"]) == (verdict, ends[1] - ends[0], ends[0] - 1)


def test_a_claim_is_measured(tmp_path, monkeypatch):
    """Two runs of two steps: the surrogate whose mask never acts has the weights of the one without a clip, to the last bit."""


    def here(jobs: Any, processes: int, heard: Any, **_: Any) -> None:
        for job in jobs:
            heard(job, {"result": carry_out(job, Lines(io.StringIO()))})

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("gradus.comparison.compare.carry_out_all", here)
    found = measure(Known("m2po", replace(known(["m2po:1"])[0].claim, budget="steps=2"), None), tmp_path)
    assert (found["verdict"], found["figure"], found["budget"]) == ("seen", 0.0, "steps=2")
    assert found["moved"] > 0


@pytest.mark.nightly
def test_a_recipe_against_itself_on_other_seeds_is_not_seen(tmp_path, monkeypatch):
    """The control: each trial compares runs of one recipe with runs of the same recipe, drawn from ten seeds."""
    from gradus.comparison.compare import compare

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    claim = replace(CLAIM, fields={"prompts": "4", "group": "4", "eval_every": "0"}, budget="steps=10", seeds=10, measure="reward:mean", against=None)
    made = compare(terms(Known("grpo", claim, None)), tmp_path / "runs")
    figures = np.array([made.results["grpo"][seed]["metrics"]["reward"]["mean"] for seed in range(10)])
    draws, seen = np.random.default_rng(0), 0
    for _ in range(200):
        order = draws.permutation(10)
        seen += judged(replace(claim, better_by=0.0), figures[order[:5], None], figures[order[5:], None]).verdict == "seen"
    assert seen <= 10
