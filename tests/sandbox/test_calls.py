"""Functions of a program called from outside: the values that come back, and what programs gain that would rather not compute them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from gradus.sandbox import Limits, Sandbox
from gradus.sandbox.calls import Raised, ask, plain, same
from tests.sandbox.isolated import isolated

pytestmark = pytest.mark.alone

SANDBOX = Sandbox(limits=Limits(wall=20, memory=256 << 20), warm=1)


@isolated
def test_values_come_back_with_their_types():
    program = "def f(x): return x\nclass C: pass\nclass Liar(int):\n    def __eq__(self, other): return True\n    __hash__ = None"
    expressions = (
        "f([1, (2.5, 'a')])",
        "f({1: {2, 3}})",
        "f(None)",
        "f(True)",
        "f(10**30)",
        "C()",
        "[Liar(3)]",
        "1/0",
        "g(1)",
        "f(float('inf'))",
    )
    values = ask(SANDBOX, program, expressions).values
    assert values[:5] == ([1, (2.5, "a")], {1: {2, 3}}, None, True, 10**30)
    assert type(values[0][1]) is tuple
    assert values[3] is True
    assert values[5] == Raised("it is of type C, not plain data")
    assert values[6] == [3]  # what it holds; what it says of itself is not asked
    assert [v.what for v in values[7:9]] == ["ZeroDivisionError", "NameError"]
    assert values[9] == math.inf


@isolated
def test_what_extends_plain_data_comes_back_as_what_it_extends():
    program = """
from collections import Counter, OrderedDict, defaultdict, namedtuple
from enum import Enum, IntEnum
class Number(IntEnum): A = 3
class Name(str, Enum): A = 'a'
class List(list):
    def __iter__(self): return iter([7])
from decimal import Decimal
from fractions import Fraction
numbers = Fraction(6, 2), Decimal('0.5'), Decimal('Infinity')
values = Counter('aab'), OrderedDict(a=1), defaultdict(list, a=[1]), namedtuple('P', 'x y')(1, 2), Number.A, Name.A, List([1]), b'a', 1 + 2j
"""
    (values,) = ask(SANDBOX, program, ["values"]).values
    assert values == ({"a": 2, "b": 1}, {"a": 1}, {"a": [1]}, (1, 2), 3, "a", [1], b"a", 1 + 2j)
    assert [type(value) for value in values] == [dict, dict, dict, tuple, int, str, list, bytes, complex]
    numbers = ask(SANDBOX, program, ["numbers[:2]", "numbers[2]"]).values
    assert numbers == ((3, Fraction(1, 2)), Raised("OverflowError"))
    near = ask(SANDBOX, "from fractions import Fraction", ["Fraction(3 * 10**20 + 1, 10**20)", "Fraction(-3)"]).values
    assert near == (3 + Fraction(1, 10**20), -3)  # no float lies between


@isolated
def test_a_value_that_cannot_be_told_leaves_the_next_ones():
    """Python writes no number of more than 4,300 digits; a list that holds itself has no end."""
    values = ask(SANDBOX, "x = []\nx.append(x)", ["2**20000", "x", "1"]).values
    assert values == (Raised("ValueError"), Raised("RecursionError"), 1)


@isolated
def test_statements_pass_where_they_do_not_raise():
    answered = ask(
        SANDBOX, "def f(x): return 2 * x", (), ("assert f(1) == 2", "assert f(1) == 3", "y = f(4)", "assert y == 8", "raise SystemExit")
    )
    assert answered.passed == (True, False, True, True, False)
    assert "test 1: AssertionError" in answered.ran.stderr


@isolated
def test_expressions_and_statements_take_turns():
    program = "kept = []\ndef put(x): kept.append(x)\ndef count(): return len(kept)"
    statements = ("put(1)", "put(2); put(3)", "assert count() == 4", "assert count() == 3")
    answered = ask(SANDBOX, program, ["count()", "count()", "count()"], statements, (0, 2, 3, 3))
    assert answered.values == (1, 1, 3)
    assert answered.passed == (True, True, False, True)
    assert ask(SANDBOX, program, ["count()"], ["put(1)"]).values == (0,)


@isolated
def test_what_equals_plain_data_comes_back_as_that():
    number = "class Number:\n    shape = ()\n    def __init__(self, x): self.x = x\n    def item(self): return self.x\n"
    program = number + "values = {1: 2}.keys(), bytearray(b'a'), Number(3), [Number(True)], Number(0.5)"
    (values,) = ask(SANDBOX, program, ["values"]).values
    assert values == ({1}, b"a", 3, [True], 0.5)
    assert values[3][0] is True


@isolated
@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "def f(:",
        "print('[\"value\", 0, 4]')",  # what it prints goes elsewhere
        "import builtins\nbuiltins.eval = lambda *a: 4\ndef f(x): raise ValueError",
        "class Any:\n    def __eq__(self, o): return True\ndef f(x): return Any()",
        "import os\nos.close(1); os.close(2)",
        "import time\ntime.sleep(100)",
        "raise KeyboardInterrupt",
    ],
)
def test_a_program_that_does_not_compute_gives_no_right_value(program):
    sandbox = Sandbox(limits=Limits(wall=2, memory=256 << 20), warm=1)
    (value,) = ask(sandbox, program, ["f(2)"]).values
    if "builtins.eval" in program:
        assert value == 4  # a constant, which a second test would show
    else:
        assert isinstance(value, Raised)


@isolated
def test_forged_lines_that_are_no_answers_are_passed_over():
    lines = [
        '["value", 7, 1]',
        '["value", -1, 1]',
        '["value", "0", 1]',
        '{"value": 0}',
        "[" * 100_000,
        "null",
        '["other", 0, true]',
        "9" * 5000,
    ]
    program = f"import os\nfor fd in range(3, 10):\n    for line in {lines!r}:\n        try: os.write(fd, line.encode() + b'\\n')\n        except OSError: pass"
    answered = ask(SANDBOX, program + "\ndef f(x): return x + 1", ["f(2)"], ["assert f(2) == 4"])
    assert answered.values == (3,)
    assert answered.passed == (False,)


@isolated
def test_what_was_computed_before_the_limit_counts():
    sandbox = Sandbox(limits=Limits(wall=2, memory=256 << 20), warm=1)
    values = ask(sandbox, "def f(x):\n    while x == 2: pass\n    return x", ["f(1)", "f(2)", "f(3)"]).values
    assert values == (1, Raised("it was not reached"), Raised("it was not reached"))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        (0, False, False),
        (0.1 + 0.2, 0.3, True),
        (1e-300, 0.0, False),
        (3, 3.0000000001, False),  # an integer is not a rounded float
        (10**9, 1e9 + 0.5, False),
        (10**20 + 1, 1e20, False),
        (2**53 + 1, float(2**53), False),
        (3, 3.0, True),
        (-0.0, 0.0, True),
        (Fraction(1, 2), 0.5, True),
        (Fraction(1, 3), 1 / 3, True),  # by rounding
        (Fraction(6, 2), 3, True),
        (Fraction(3 * 10**20 + 1, 10**20), 3, False),
        (Fraction(1, 3), Fraction(2, 6), True),
        (Fraction(10**400), 1.5, False),
        (Fraction(1), True, False),
        (1 + 0j, 1, False),
        (1 + 2j, 1 + 2j, True),
        ("a\u2028", "a\n", False),
        (b"a", "a", False),
        ({True}, {1}, False),
        ({1.0}, {1}, True),
        ({(1, True)}, {(1, 1)}, False),
        ({frozenset({1})}, {frozenset({True})}, False),
        ({True: 1}, {1: 1}, False),
        ({(0, 1): 2}, {(False, 1): 2}, False),
        ({1: [0.1 + 0.2]}, {1.0: [0.3]}, True),
        ([{True}], [{1}], False),
        ({1, 2}, {1}, False),
        ({1}, {1, 2}, False),
        (10**400, 1.5, False),
        (10**400, 10**400, True),
        (math.inf, math.inf, True),
        (math.inf, 1e308, False),
        (math.nan, math.nan, False),
        ([1, [2.0]], [1, [2]], True),
        ([1], (1,), False),
        ([1, 2], [1], False),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({1, 2}, {2, 1}, True),
        ("a", "a", True),
        ("1", 1, False),
        (None, None, True),
        (None, False, False),
    ],
)
def test_equality(one, other, equal):
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_what_is_no_plain_data():
    assert plain({"list": [1, {"tuple": []}]}) == [1, ()]
    for coded in (
        [1],
        {},
        {"list": 3},
        {"bytes": 10**15},
        {"bytes": [256]},
        {"complex": [1, "a"]},
        {"dict": [[{"list": []}, 1]]},
        {"set": [{"list": []}]},
        {"list": [1], "set": []},
        {"complex": [10**400, 0]},
        {"ratio": [1, 0]},
        {"ratio": [0.5, 2]},
        {"ratio": 3},
        {"bytes": ["a"]},
        {"dict": [[1, 2, 3]]},
        {"dict": 7},
    ):
        assert isinstance(plain(coded), Raised), coded
    deep: object = 1
    for _ in range(5000):
        deep = {"list": [deep]}
    assert isinstance(plain(deep), Raised)


def test_keys_that_were_chosen_to_share_a_hash_are_no_plain_data():
    """To put n of them into a set takes n * n comparisons, in the process that trains."""
    one = [(2**61 - 1) * i for i in range(1, 200_000)]  # the hash of each is 0; all together would take minutes
    assert isinstance(plain({"set": one}), Raised)
    assert isinstance(plain({"dict": [[key, 0] for key in one]}), Raised)
    assert plain({"set": one[:50]}) == set(one[:50])
    assert len(plain({"dict": [[i, 0] for i in range(-5000, 5000)]})) == 10_000
