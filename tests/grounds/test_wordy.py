"""A start that writes more than it needs."""

from gradus.comparison.calibrate import stored
from gradus.comparison.starts import plan_of
from gradus.grounds.wordy import wordy
from gradus.training.plan import load_task, task_of
from gradus.types import Key

LIMIT = int(wordy.fields["max_tokens"])


def lengths(task):
    return [len(p.meta["solution"]) + 1 for p in task.source.draw(range(400), None, Key(0))]


def test_the_start_imitates_solutions_of_twice_the_length_and_a_quarter_of_them_is_cut():
    long, short = lengths(task_of(plan_of(wordy.start, None))), lengths(load_task(wordy.task, wordy.options))
    assert 1.9 < sum(long) / sum(short) < 2.4
    assert 0.15 < sum(n > LIMIT for n in long) / 400 < 0.35
    assert max(short) <= LIMIT // 2


def test_the_price_separates_the_pair():
    found = stored(wordy)
    if found is not None:
        assert found["pair"]["separated"]
        assert found["pair"]["measure"] == "length"
