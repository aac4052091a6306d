"""The verifier as a whole: against recorded verdicts of math-verify, by examples of every form, and under hostile input."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.rewards.functions import reward_from
from gradus.tasks.maths import mathematics as module
from gradus.tasks.maths.mathematics import framed, mathematics, reward, verify
from gradus.types import NOT_APPLICABLE, Problem

ROWS = [json.loads(line) for line in (Path(__file__).parent / "pairs.jsonl").read_text().splitlines()]


def test_it_agrees_with_the_recorded_verdicts():
    """Written by `python -m benchmarks.mathematics --record`."""
    assert len(ROWS) == 400
    assert 100 < sum(r["right"] for r in ROWS) < 300
    assert [r for r in ROWS if verify(r["gold"], r["answer"]) != r["right"]] == []


RIGHT = [
    (r"\frac{1}{2}", "0.5"),
    (r"\frac12", r"\dfrac{2}{4}"),
    ("1,234", "1234"),
    (r"1{,}234.5", "1234.50"),
    (r"1\frac{1}{2}", "1.5"),
    (r"50\%", "0.5"),
    (r"50\%", "50"),
    (r"\frac{1}{3}", "0.333333"),  # rounds to it at the sixth decimal
    (r"\sqrt{2}", "1.414214"),
    (r"3 \times 10^{8}", "300000000"),
    (r"2\sqrt{3}", r"\sqrt{12}"),
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),  # (a + b)^2 = 2 + 3 + 2 sqrt 6
    (r"\frac{\pi}{2}", r"\pi/2"),
    ("(x+1)^2", "x^2+2x+1"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\sin^2 x+\cos^2 x", "1"),
    (r"\sqrt{x^2}", "|x|"),
    ("x=5", "5"),
    ("5", "x = 5"),
    ("x+y=1", "2x+2y=2"),
    ("y=2x+1", "2x-y+1=0"),
    ("x>5", "5<x"),
    ("1<x<5", "(1,5)"),
    (r"x \le 5", r"x \in (-\infty, 5]"),
    (r"\{1,2,3\}", "3, 1, 2"),
    ("x=1, x=2", r"2 \text{ or } 1"),
    (r"2 \pm \sqrt{3}", r"2-\sqrt{3}, 2+\sqrt{3}"),
    (r"\left(3, \frac{\pi}{2}\right)", r"(3,\pi/2)"),
    ("(1,2),(3,4)", "(3,4), (1,2)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"[0,1)\cup(1,2]", r"[0,2]\setminus\{1\}"),
    (r"\mathbb{R}", r"(-\infty,\infty)"),
    (r"\begin{pmatrix}1&2\\3&0.5\end{pmatrix}", r"\begin{bmatrix}1&2\\3&\frac12\end{bmatrix}"),
    (r"2\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\4\end{pmatrix}"),
    ("3+4i", "4i+3"),
    ("(1+i)^2", "2i"),
    (r"\binom{5}{2}", "10"),
    (r"\log_2 8", "3"),
    (r"5\text{ cm}^2", "5"),
    (r"30^\circ", "30"),
    (r"\$5.00", "5"),
    (r"\text{Monday}", r"\textbf{monday}"),
]
WRONG = [
    ("5", "6"),
    (r"\frac{1}{3}", "0.33333"),
    ("7", "7.0000001"),  # a whole number is not rounded to
    (r"\frac{1}{3}", r"\frac{333333}{1000000}"),  # only a written-out decimal is
    (r"12.5\%", "12.5"),
    ("100000000000000000001", "100000000000000000002"),
    (r"\sqrt{2}", r"\sqrt{2.0000001}"),
    (r"\sqrt{x^2}", "x"),
    (r"\ln x^2", r"2\ln x"),
    ("x+1", "y+1"),
    (r"\frac{x}{3}", "0.333333x"),
    ("x=5", "y=5"),
    ("x=5", "2x=10"),  # the value is asked for
    ("x>5", r"x\ge 5"),
    ("(1,5)", "1<x<5"),
    ("1<x<5", "x>1, x<5"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "[1,2]"),
    (r"(2,1)", r"\{1,2\}"),
    (r"\{1,2\}", "1"),
    (r"\{1,1,2\}", r"\{1,2,2,3\}"),
    (r"(-\infty,2)\cup(3,\infty)", r"(-\infty,2]\cup(3,\infty)"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\infty", r"-\infty"),
    ("3+4i", "3-4i"),
    (r"\text{red}", r"\text{blue}"),
]


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_right(gold, answer):
    assert verify(f"${gold}$", f"${answer}$")


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_wrong(gold, answer):
    assert not verify(f"${gold}$", rf"\boxed{{{answer}}}")


@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_fractions_are_equal_when_they_are_equal(a, b):
    frame = r"$\frac{{{}}}{{{}}}$".format
    assert verify(frame(a.numerator, a.denominator), frame(3 * a.numerator, 3 * a.denominator))
    assert verify(frame(a.numerator, a.denominator), frame(b.numerator, b.denominator)) == (a == b)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=6, unique=True), st.randoms())
def test_the_order_of_a_set_does_not_count(values, r):
    other = list(values)
    r.shuffle(other)
    assert verify(f"$\\{{{','.join(map(str, values))}\\}}$", f"$\\{{{', '.join(map(str, other))}\\}}$")


@given(
    st.text(alphabet="0123456789xyie+-*/^_(){}[]\\|$.,=<>!% frcsqtpibomd&", max_size=60), st.sampled_from(["{}", "${}$", r"\boxed{{{}}}"])
)
def test_no_text_raises(text, frame):
    assert verify(frame.format(text), "$x$") in (True, False)
    assert verify("$1$", frame.format(text)) in (True, False)


HOSTILE = [
    "9^{9^{9^{9}}}",
    "(((2^{100})^{100})^{100})^{100}",
    "100000!",
    r"\binom{99999999}{5000}",
    r"\sqrt[9999999]{2}",
    "e^{e^{e^{e^{9}}}}",
    "1" * 5000,
    "9" * 399 + "^{" + "9" * 300 + "}",
    "(" * 5000,
    r"\frac{" * 700,
    "1" + "!" * 1500,
    "x" * 1500,
    r"\pm1" * 100,
    r"\text",
    r"\begin",
    "(x+1)^{9999}" * 60,
    r"\{" + ",".join(rf"\sqrt{{{n}}}" for n in range(130)) + r"\}",
    "1" + " " * 1900 + "2",
    "1" + "~" * 1900 + "2",
    r"\frac1" * 250 + "2",
    r"\sqrt" * 390 + "2",
    r"\max(3)",
    r"\log(10^{400})",
    r"\log(10^{-400})",
    r"\log_{1." + "0" * 30 + "1}(5)",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: t[:12])
def test_what_is_too_large_is_not_right(text):
    assert not verify("$12345$", f"${text}$")
    assert not verify(f"${text}$", r"\boxed{12345}")


def test_white_space_between_formulas_costs_no_time():
    assert verify("$1,2$", "$1$" + " " * 19_000 + ",\n and $2$")
    assert not verify("$12$", "$1$" + " " * 19_000 + "$2$")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("$x^2+11x+28$", "Thus, \\(5 \\text{\udb8eor } -3\\)."),  # polynomials, compared by residues
        ("$\\sin(x)+28$", "Thus, \\(\\sin(5 \\text{\udb8eor } -3)\\)."),  # others, by values
    ],
)
def test_a_variable_named_by_half_a_surrogate_pair_is_another_one(gold, answer):
    assert not verify(gold, answer)
    assert not verify(answer, gold)


def test_terms_that_are_nested_too_deeply_for_the_stack_are_not_right(monkeypatch):
    def deep(gold, answer):
        raise RecursionError

    monkeypatch.setattr(module, "same", deep)
    assert verify("$1$", "$2$") is False


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x+1", "x+2^{192}"),
        ("x", "x+18446744069414584321"),
        ("3+i", "3+2^{48}"),
        ("1,2", "1," * 31 + "2,3"),  # more members than are compared
        (",".join(map(str, range(32))), ",".join(map(str, range(40)))),
        ("0.0000001", "0.0"),
        (r"\frac{1}{3000000}", "0.000000"),
    ],
)
def test_what_is_not_the_answer_is_wrong(gold, answer):
    assert not verify(f"${gold}$", rf"\boxed{{{answer}}}")


def test_a_value_of_zero_is_zero_with_decimals_too():
    assert verify(r"$\sin(\pi)$", "$0.0$")
    assert verify("$0$", "$0.0$")


def test_a_bare_gold_answer_is_framed_and_a_list_holds_accepted_answers():
    assert framed(r"2\sqrt{3}") == r"\boxed{2\sqrt{3}}"
    assert framed("$x$") == "$x$"
    assert mathematics(Problem("p", "t", answer=r"2\sqrt{3}"), r"So $\sqrt{12}$.") == 1.0
    assert mathematics(Problem("p", "t", answer=[r"\frac12", "7"]), "The answer is 7") == 1.0
    assert mathematics(Problem("p", "t", answer=0.5), r"\boxed{\frac{1}{2}}") == 1.0
    assert mathematics(Problem("p", "t", answer="4"), "no idea") == 0.0
    assert mathematics(Problem("p", "t"), "4") is NOT_APPLICABLE


def test_the_reward_function_reads_text_and_chats():
    chat = [{"role": "assistant", "content": r"\boxed{2}"}]
    assert reward(completions=["$1/2$", "3", chat], answer=["0.5", None, "3"]) == [1.0, None, 0.0]
    assert reward_from(f"{module.__file__}:reward").name == "reward"


def test_a_percentage_is_its_share():
    assert all(verify(f"${n}\\%$", f"{Fraction(n, 100)}") for n in (5, 12, 150))
