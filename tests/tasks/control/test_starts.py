"""Starts without end; held-out ones differ."""

from gradus.tasks.control.starts import Starts
from gradus.types import Key


def test_held_out_starts_have_other_names():
    a, b = Starts("w"), Starts("w", held_out=True)
    assert {p.id for p in a.draw(range(5), None, Key())}.isdisjoint(p.id for p in b.draw(range(5), None, Key()))
    assert {p.text for p in a.draw(range(5), None, Key())}.isdisjoint(p.text for p in b.draw(range(5), None, Key()))
    assert a.size is None
    assert a.draw([3], None, Key())[0].meta["start"] == 3
