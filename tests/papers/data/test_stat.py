"""STAT: difficult problems, missing skills, draws in proportion to the profile, agreeing solutions, and GRPO without stages."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import gradus
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.data.stat import MissingSkills, first_wrong, missing, stat, steps_of
from gradus.policies.tiny import folder
from gradus.recipe.core import changes
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.stages import Stage, Stages
from gradus.tasks.text.string_ops import FUNCTIONS
from gradus.testing.methods import toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.moments import Steps

BOUNDS = {"final": 0.85, "step": 0.7, "most": 3}


def group(name, solution, skills, *said):
    problem = Problem(name, "toy", text=name, meta=Frozen(solution=solution, functions=skills))
    right = [text.rpartition("=")[2] == solution.rpartition("=")[2] for text in said]
    made = [toy_trajectory([2], reward=float(r), name=f"{name}/{i}") for i, r in enumerate(right)]
    return Group(name, tuple(t.but(problem=problem, completion=text) for t, text in zip(made, said, strict=True)))


def test_pairs_with_skills_a_a_a_b_give_15_problems_for_a_and_5_for_b():
    failed = [group(f"f{i}", "x=y", (skill, "other"), "z=z", "z=z") for i, skill in enumerate("aaab")]
    solved = [group(f"s{i}", "x=y", (skill, "other"), "x=y", "x=y") for i, skill in enumerate("aaaaabbbbbcc")]
    rows = MissingSkills().rows([*failed, *solved])
    assert Counter(row["skill"] for row in rows) == {"a": 15, "b": 5}
    assert all(row["skill"] in row["problem"].meta["functions"] for row in rows)
    assert all(len({r["problem"].id for r in rows[i : i + 5]}) == 5 for i in (0, 5, 10, 15))
    untargeted = MissingSkills(targeted=False).rows([*failed, *solved])
    assert len(untargeted) == 20
    assert any(row["skill"] not in row["problem"].meta["functions"] for row in untargeted)


def test_a_skill_of_few_problems_gives_them_again():
    rows = MissingSkills().rows([group("f", "x=y", ("a", "b"), "z=z")])
    assert [row["problem"].id for row in rows] == ["f"] * 5


@pytest.mark.parametrize(("written", "wrong"), [("ab bc=cd", None), ("ab bx=cd", 1), ("ab=", 1), ("", 0), ("=", 0), ("ab bc=cd=ef", None), ("ab bc=x", 2)])
def test_the_first_wrong_step(written, wrong):
    assert first_wrong(steps_of(written), steps_of("ab bc=cd")) == wrong


def test_a_problem_is_difficult_by_its_answers_or_by_its_steps():
    skills, right, slip, guess = ("r", "s", "t"), ("a b=c", True), ("a x=d", False), ("x y=c", True)
    assert missing("a b=c", [right] * 9 + [slip], skills, **BOUNDS) == []  # 0.9 right, every step 0.9
    assert missing("a b=c", [right] * 8 + [slip] * 2, skills, **BOUNDS) == ["s"]  # 0.8 right
    assert missing("a b=c", [right] * 7 + [guess] * 3, skills, **BOUNDS) == []  # all right, first step 0.7
    assert missing("a b=c", [right] * 6 + [guess] * 4, skills, **BOUNDS) == ["r"]
    assert missing("a b=c", [right] * 17 + [slip] * 3, skills, **BOUNDS) == []  # exactly 0.85 right
    assert missing("a b=c", [right] * 6 + [("a b=d=c", True)] * 4, skills, **BOUNDS) == ["t"]  # the last step alone
    both = [slip] * 3 + [("x=d", False)] * 2 + [("a b=d", False)]
    assert missing("a b=c", both, skills, **BOUNDS) == ["s", "r", "t"]
    assert missing("a b=c", both, skills, **{**BOUNDS, "most": 2}) == ["s", "r"]


@pytest.mark.nightly
def test_two_rare_skills_are_the_top_two_of_the_profile(tmp_path):
    """The student has imitated chains without two of the eight functions."""
    names = tuple(name for name in FUNCTIONS if name not in ("swap", "double"))
    (tmp_path / "common.py").write_text(f"from gradus.tasks.text.string_ops import string_ops\ncommon = string_ops(level=2, functions={names})\n")
    taught = Stage(sft, Steps(60), task=f"{tmp_path / 'common.py'}:common", changes=Frozen({"setting.learning_rate": 2e-3, "setting.warmup": 0}))
    look = Stage(until=Steps(8), makes=MissingSkills(), changes=stat.schedule.stages["look"].changes)
    seen = []

    def watch(run, metrics, groups):
        seen.extend(groups if metrics["stage"] == "look" else [])

    small = {"setting__prompts": 8, "setting__group": 4, "setting__eval_every": 0, "study": None}
    gradus.train(stat.but(schedule=Stages(Frozen(taught=taught, look=look))), "string_ops", task_options={"level": "2"}, on_step=watch, **small)
    first, second, third = Counter(row["skill"] for row in MissingSkills().rows(seen)).most_common(3)
    assert {first[0], second[0]} == {"swap", "double"}
    assert second[1] > 1.5 * third[1]


def test_of_the_difficult_problems_the_first_ones_count():
    failed = [group(name, "x=y", (name, "z"), "q=q") for name in "fgh"]
    assert Counter(row["skill"] for row in MissingSkills(difficult=2).rows(failed)) == {"f": 5, "g": 5}


def test_problems_without_labels_are_named():
    with pytest.raises(UserError, match='no column "skills"; give every problem'):
        MissingSkills(column="skills").rows([group("f", "x=y", ("a", "b"), "z=z")])
    assert MissingSkills().rows([]) == []


@pytest.mark.nightly
def test_the_first_stage_changes_no_weight_and_its_problems_are_studied():
    stages = stat.schedule.stages
    assert (set(changes(grpo, stat)), stages["study"].recipe, stages["study"].task) == ({"schedule"}, sft, "made:look")
    small = {"setting__prompts": 4, "setting__group": 4, "study": None, "setting__learning_rate": 1e-2}
    look = stat.but(schedule=Stages(Frozen(look=Stage(until=Steps(2), makes=MissingSkills(), changes=stages["look"].changes))))
    run = gradus.train(look, task="string_ops", **small)
    start = gradus.train(look, task="string_ops", model=str(folder("base")), **{**small, "setting__learning_rate": 0.0})
    ours, plain = (r.players["policy"].policy.network.state_dict() for r in (run, start))
    assert all(torch.equal(ours[name], plain[name]) for name in plain)
    whole = {f"schedule__stages__{name}__until": Steps(1) for name in stages}
    run = gradus.train(stat, task="string_ops", **{**small, **whole})
    assert [row["stage"] for row in run.metrics if "reward" in row] == ["look", "study", "rl"]


def test_without_stages_it_is_grpo():
    ours, plain = (weights_after(r, steps=3)["policy.logits"] for r in (stat.but(schedule=ConstantSchedule()), grpo))
    assert torch.equal(ours, plain)
