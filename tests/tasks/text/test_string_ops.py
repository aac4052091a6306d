from __future__ import annotations

import pytest

from gradus.tasks.text.string_ops import FUNCTIONS, string_ops, verify
from gradus.types import Key, Problem, UserError


def test_every_function_by_hand() -> None:
    made = {name: f("planet") for name, f in FUNCTIONS.items()}
    assert made == {
        "reverse": "tenalp",
        "upper": "PLANET",
        "rotate": "lanetp",
        "double": "ppllaanneett",
        "devowel": "plnt",
        "swap": "tlanep",
        "mirror": "planettenalp",
        "tail": "lanet",
    }
    assert FUNCTIONS["devowel"]("PLANET") == "PLNT"
    assert [FUNCTIONS["swap"](s) for s in ("", "a", "ab")] == ["", "a", "ba"]


def test_functions_are_applied_from_the_inside_out() -> None:
    for p in string_ops(level=3).source.draw(range(50), None, Key(0)):
        outer, middle, rest = p.question.split("(", 2)
        inner, word = rest.rstrip(")").split("(")
        value = FUNCTIONS[outer](FUNCTIONS[middle](FUNCTIONS[inner](word)))
        assert p.answer == value
        assert p.meta["functions"] == (inner, middle, outer)
        assert p.meta["solution"].endswith(f"={value}")


def test_no_value_dies_out_or_grows_without_end() -> None:
    for p in string_ops(level=8).source.draw(range(200), None, Key(0)):
        values = p.meta["solution"].replace("=", " ").split()
        assert all(2 <= len(v) <= 12 for v in values)
        assert len(values) == 8


def test_what_counts_as_the_answer() -> None:
    p = Problem("x", "string_ops", answer="Ab")
    assert [verify(p, text) for text in ("=Ab", "x y = Ab ", "Ab", "=ab", "=Ab=", "=A b")] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_choice_of_functions() -> None:
    task = string_ops(level=2, functions=("upper", "reverse"))
    assert {f for p in task.source.draw(range(40), None, Key(0)) for f in p.meta["functions"]} == {"upper", "reverse"}
    with pytest.raises(UserError, match=r'unknown string function "revers" \(did you mean reverse'):
        string_ops(functions=("revers",))
    with pytest.raises(UserError, match="`functions` is empty"):
        string_ops(functions=())
