"""A skill that is trained, and one that is not."""

from gradus.comparison.calibrate import stored
from gradus.comparison.starts import elsewhere_of
from gradus.grounds.two_skills import two_skills


def test_the_old_skill_is_another_task():
    assert {elsewhere_of(text).task for text in two_skills.others} == {"countdown", "string_ops"}
    assert two_skills.task == "arithmetic"


def test_both_arms_learn_and_one_forgets():
    found = stored(two_skills)
    assert found is not None
    assert found["pair"]["separated"]
    learned = {row["name"]: row["accuracy"] - found["start"] for row in found["arms"]}
    assert min(learned[name] for name in ("grpo", "hot")) > 0.3
