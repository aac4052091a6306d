"""Pairs of answers, of which a given share has changed places in training."""

import pytest

from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.maths.noisy_pairs import noisy_pairs
from gradus.types import Key, UserError


def drawn(task, count=400, held_out=False):
    return (task.held_out if held_out else task.source).draw(range(count), None, Key(0))


def right(task, problems, name):
    """The share of right answers among those with this name."""
    return sum(task.verify(p, p.meta[name]) for p in problems) / len(problems)


def test_the_stated_share_has_changed_places():
    task = noisy_pairs(2, swapped=0.3)
    problems = drawn(task)
    assert right(task, problems, "rejected") == pytest.approx(0.3, abs=0.07)  # three standard deviations: 3 sqrt(0.21 / 400)
    assert right(task, problems, "chosen") + right(task, problems, "rejected") == 1
    assert all(p.meta["swapped"] == (task.verify(p, p.meta["rejected"]) == 1) for p in problems)


def test_held_out_pairs_are_clean():
    task = noisy_pairs(2, swapped=1.0)
    assert right(task, drawn(task), "chosen") == 0
    assert right(task, drawn(task, held_out=True), "chosen") == 1


def test_the_share_changes_no_problem():
    plain = drawn(arithmetic(2), 20)
    for share in (0.0, 0.5):
        assert [(p.question, p.answer) for p in drawn(noisy_pairs(2, share), 20)] == [(p.question, p.answer) for p in plain]


def test_a_set_of_stated_size():
    assert noisy_pairs(pairs=200).source.size == 200
    assert noisy_pairs(pairs=200).held_out.size is None
    assert noisy_pairs().source.size is None


def test_bad_options_are_refused():
    with pytest.raises(UserError, match=r"`swapped` is 1\.5"):
        noisy_pairs(swapped=1.5)
    with pytest.raises(UserError, match="`pairs` is 0"):
        noisy_pairs(pairs=0)
