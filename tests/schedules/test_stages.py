"""Stages as records: names, when one ends, and lengths in proportion."""

from __future__ import annotations

import pytest

from gradus.papers.bases.sft import sft
from gradus.recipe.serialise import from_json, to_json
from gradus.schedules.harvests import RightAnswers
from gradus.schedules.stages import Merge, Stage, Stages, most_steps, over, within
from gradus.types import Frozen, UserError
from gradus.types.moments import Fallen, Level, Moment, Plateau, Steps


@pytest.mark.parametrize(
    ("until", "steps", "scores", "due"),
    [
        (Steps(3), 2, [], False),
        (Steps(3), 3, [], True),
        (Level("m", at=0.5, most=10), 4, [0.2, 0.5], True),
        (Level("m", at=0.5, most=10), 4, [0.6, 0.49], False),  # the newest decides
        (Level("m", at=0.5, most=10), 10, [0.2], True),
        (Fallen("m", to=0.5, most=10), 0, [0.4], False),
        (Fallen("m", to=0.5, most=10), 4, [0.4, 0.3, 0.2], False),  # below, not at
        (Fallen("m", to=0.5, most=10), 4, [0.4, 0.3, 0.19], True),
        (Fallen("m", to=0.5, most=10), 10, [0.4, 0.3], True),
        (Plateau("m", gain=0.01, evaluations=2), 20, [0.3, 0.3], False),  # nothing before the last two
        (Plateau("m", gain=0.01, evaluations=2), 20, [0.3, 0.305, 0.309], True),
        (Plateau("m", gain=0.01, evaluations=2), 20, [0.3, 0.311, 0.2], False),  # the best of the last two counts
        (Plateau("m", gain=0.01, evaluations=2), 20, [0.3, 0.1, 0.2, 0.305], True),  # against the best before
        (Plateau("m", gain=0.0, evaluations=1), 20, [0.3, 0.3], False),  # a gain of nothing is no loss
        (Plateau("m", gain=0.0, evaluations=1), 20, [0.3, 0.29], True),
    ],
)
def test_the_end_of_a_stage(until, steps, scores, due):
    assert over(until, steps, scores) is due


def test_the_schedule_itself_changes_nothing():
    stages = Stages(Frozen(a=Stage(sft)))
    assert stages.at(Moment(0, 3), sft) == (sft, ())
    assert from_json(to_json(sft.but(schedule=stages))).schedule == stages
    full = Stages(Frozen(a=Stage(sft, Steps(2), makes=RightAnswers()), b=Stage(None, Level(), "first", task="made:a"), c=Merge(Frozen(a=2.0, b=-1.0))), 3)
    assert from_json(to_json(sft.but(schedule=full))).schedule == full


@pytest.mark.parametrize("name", ["previous", "first", "a-2", "a.b", "2a", ""])
def test_a_name_that_cannot_be(name):
    with pytest.raises(UserError, match="a stage cannot be named"):
        Stages(Frozen({name: Stage(sft)}))


def test_what_cannot_be_a_stage():
    with pytest.raises(UserError, match="stage a is of type Recipe; it must be a Stage, a Merge or a Fuse"):
        Stages(Frozen(a=sft))
    with pytest.raises(UserError, match="there are no stages"):
        Stages(Frozen())
    with pytest.raises(UserError, match=r"repeat is 0"):
        Stages(Frozen(a=Stage(sft)), repeat=0)
    with pytest.raises(UserError, match=r"the weights of a merge are a 0.5, b 0.6, and their sum is 1.1; give at least two stages"):
        Merge(Frozen(a=0.5, b=0.6))
    with pytest.raises(UserError, match="give at least two stages"):
        Merge(Frozen(a=1.0))


@pytest.mark.parametrize(
    ("lengths", "repeat", "steps", "due"),
    [
        ([50, 100], 1, 30, [10, 20]),
        ([50, 100], 1, 2, [1, 1]),
        ([50, 100], 1, 4, [1, 3]),
        ([1, 1, 98], 1, 10, [1, 1, 8]),
        ([10, 10], 2, 8, [2, 2]),
        ([3, 3], 1, 100, [50, 50]),
    ],
)
def test_lengths_in_proportion(lengths, repeat, steps, due):
    made = within(Stages(Frozen({f"s{n}": Stage(sft, Steps(count)) for n, count in enumerate(lengths)}), repeat), steps)
    assert [most_steps(stage) for stage in made.stages.values()] == due


def test_other_ends_keep_their_kind_and_a_merge_its_step():
    stages = Stages(Frozen(a=Stage(sft, Plateau(most=90)), b=Stage(sft, Steps(10)), c=Merge(Frozen(a=0.5, b=0.5))))
    made = within(stages, 11)
    assert [most_steps(stage) for stage in made.stages.values()] == [9, 1, 1]
    assert made.stages["a"].until == Plateau(most=9)
    with pytest.raises(UserError, match="--steps is 2, but 3 stages in 1 rounds need at least one step per stage and round; give 3 or more"):
        within(stages, 2)
