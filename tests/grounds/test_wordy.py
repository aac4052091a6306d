"""A start that writes too much, and a price that begins below its answers."""

from gradus.comparison.calibrate import stored
from gradus.grounds.wordy import wordy


def test_the_price_begins_below_the_length_of_the_start():
    cache = int(wordy.pair.better.rpartition(" ")[2])
    begins = int(wordy.fields["max_tokens"]) - cache
    found = stored(wordy)
    assert found is not None
    free = next(row for row in found["arms"] if row["name"] == "free")
    assert begins < free["final"] / 2


def test_answers_are_shorter_at_level_accuracy():
    found = stored(wordy)
    assert found is not None
    assert found["pair"]["separated"]
    priced, free = (next(row for row in found["arms"] if row["name"] == name) for name in ("priced", "free"))
    assert priced["final"] < 0.8 * free["final"]
    assert abs(priced["accuracy"] - free["accuracy"]) < 0.1
