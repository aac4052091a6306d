"""A level that is examined and never trained."""

from gradus.comparison.calibrate import stored
from gradus.comparison.starts import elsewhere_of
from gradus.grounds.depth import depth
from gradus.training.plan import load_task
from gradus.types import Key


def functions(options):
    return {len(p.meta["functions"]) for p in load_task(depth.task, options).source.draw(range(100), None, Key(0))}


def test_the_examined_chains_are_longer_than_any_trained_one():
    deep = elsewhere_of(depth.others[0])
    assert deep.task == depth.task
    assert functions(depth.options) == {2}
    assert functions(dict(deep.options)) == {3}


def test_equal_at_the_trained_level_and_apart_at_the_other():
    found = stored(depth)
    if found is not None:
        assert found["pair"]["separated"]
        assert found["pair"]["measure"] == "accuracy@deep"
        better, worse = (next(row for row in found["arms"] if row["name"] == name)["accuracy"] for name in ("sft", "hot"))
        assert abs(better - worse) < 0.05
