"""A student beside a teacher's solutions."""

from gradus.comparison.calibrate import stored
from gradus.grounds.weak_to_strong import weak_to_strong
from gradus.training.plan import load_task
from gradus.types import Key


def test_the_teacher_is_always_right():
    task = load_task(weak_to_strong.task, weak_to_strong.options)
    assert "solution" in task.provides
    assert all(task.verify(p, p.meta["solution"]) == 1.0 for p in task.source.draw(range(50), None, Key(0)))


def test_the_student_hardly_is_and_the_pair_is_separated():
    found = stored(weak_to_strong)
    if found is not None:
        assert found["start"] < 0.15
        assert found["pair"]["separated"]
