"""The verdict of a claim, and the form of the claims in the tree."""

from __future__ import annotations

import json

import pytest

from benchmarks.measure_claims import FOLDER, measured, verdict

DUE = {"says", "source", "recipe", "against", "seeds", "measure", "better_by"}


@pytest.mark.parametrize(
    ("differences", "better_by", "said"),
    [
        ([0.05, 0.06, 0.07], 0.02, "seen"),  # mean 0.06, half width 4.303 * 0.01 / sqrt(3) = 0.025
        ([0.05, 0.06, 0.07], 0.10, "not seen"),  # better, but by less than claimed
        ([-0.05, 0.06, 0.07], 0.02, "not seen"),  # the interval holds 0
        ([-0.05, -0.06, -0.07], 0.02, "opposite"),
        ([-5.0, -6.0, -7.0], -4.0, "seen"),  # less is better
        ([5.0, 6.0, 7.0], -4.0, "opposite"),
        ([0.5], 0.02, "not seen"),  # one seed has no interval
    ],
)
def test_verdict(differences, better_by, said):
    assert verdict(differences, better_by).verdict == said


def test_interval_is_students():
    found = verdict([0.05, 0.06, 0.07], 0.02)
    assert (round(found.difference, 4), round(found.low, 4), round(found.high, 4)) == (0.06, 0.0352, 0.0848)


def test_a_recipe_against_itself_differs_by_nothing():
    options = {"prompts": "2", "group": "2", "max_tokens": "2", "eval_every": "0", "study": "none"}
    claim = {"recipe": "grpo", "against": "grpo", "task": "arithmetic", "options": options, "steps": 1, "seeds": [0, 1]}
    found = measured({**claim, "measure": "reward", "better_by": 0.1})
    assert (found["difference"], found["verdict"]) == (0.0, "not seen")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_claim_is_whole(path):
    claim = json.loads(path.read_text())
    assert not DUE - claim.keys()
    if "measured" in claim:
        assert claim["measured"]["verdict"] in ("seen", "not seen", "opposite")
        assert claim["measured"]["command"]
