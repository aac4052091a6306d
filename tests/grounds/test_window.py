"""A window of tokens that is too small for most answers."""

from gradus.comparison.calibrate import stored
from gradus.grounds.window import window
from gradus.training.plan import load_task
from gradus.types import Key

LIMIT = int(window.fields["max_tokens"])


def test_the_share_of_problems_whose_solution_fits():
    task = load_task(window.task, window.options)
    problems = task.source.draw(range(600), None, Key(0))
    fits = [len(p.meta["solution"]) <= LIMIT for p in problems]
    assert abs(sum(fits) / 600 - 36 / 81) < 0.061  # 36 of the 81 pairs of digits 1 to 9 add up to at most 9; three deviations of 600 draws
    assert all(task.verify(p, p.meta["solution"]) == 1.0 for p in problems[:20])
    cut = [task.verify(p, p.meta["solution"][:LIMIT]) for p, short in zip(problems, fits, strict=True) if not short]
    assert max(cut) == 0.0


def test_the_pair_is_separated():
    found = stored(window)
    if found is not None:
        assert found["pair"]["separated"]
        worse = next(row for row in found["arms"] if row["name"] == "grpo")
        assert worse["final"] < 0.6
