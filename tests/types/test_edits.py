"""Edit distances worked by hand, and by a recursion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradus.types.edits import edit_distance, edit_distances


def plain(a: str, b: str) -> int:
    """The definition, read literally."""
    if not a or not b:
        return len(a) + len(b)
    return min(plain(a[1:], b) + 1, plain(a, b[1:]) + 1, plain(a[1:], b[1:]) + (a[0] != b[0]))


def test_distances_by_hand() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distances("ab", "abc") == [2, 1, 0, 1]
    assert (edit_distance("", "abc"), edit_distance("abc", "")) == (3, 3)


@given(st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_the_table_equals_the_recursion(a: str, b: str) -> None:
    assert edit_distances(a, b) == [plain(a, b[:n]) for n in range(len(b) + 1)]
