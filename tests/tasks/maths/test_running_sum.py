from gradus.tasks.maths.running_sum import running_sum
from gradus.types import Key


def test_running_sum_notes_every_total() -> None:
    task = running_sum(level=4)
    (p,) = task.source.draw([3], None, Key(0))
    a, b, c, d = (int(n) for n in p.question[1::2])
    assert p.question[::2] == "abcd"
    assert p.meta["solution"] == f"a{a}b{a + b}c{a + b + c}d{p.answer}={p.answer}"
    assert p.answer == a + b + c + d
