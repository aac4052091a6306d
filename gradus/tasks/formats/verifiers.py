"""Verifiers for the answers of published data sets: the letter of an option, a short answer, an expression of given numbers, the roles of people."""

from __future__ import annotations

import ast
import re
import string
from collections import Counter
from fractions import Fraction

from gradus.tasks.data.final_answer import has_answer
from gradus.types import NOT_APPLICABLE, Outcome, Problem
from gradus.types.answers import final_answer

_LETTER = re.compile(r"[*(\[]*([A-Za-z])[*)\]]*(?:[.:)]\s.*|[.:)]?)", re.DOTALL)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)
_ROLE = re.compile(r"(\w+) is an? (\w+)", re.IGNORECASE)
_LONGEST = 400  # characters of an expression
_SYMBOLS = frozenset("0123456789+-*/() ")


def choice(problem: Problem, completion: str) -> Outcome:
    """1.0 if the final answer is the letter of the right option, else 0.0. "(b)", "B." and "B. the text of the option" count as B."""
    if not has_answer(problem.answer):
        return NOT_APPLICABLE
    found = _LETTER.fullmatch(final_answer(completion))
    return float(found is not None and found[1].upper() == str(problem.answer).strip().upper())


def plain_words(text: str) -> str:
    """Returns a text in lower case, without punctuation, without the words a, an and the, and with single spaces.

    The exact match of SQuAD normalises answers in this way (Rajpurkar et al., arXiv:1606.05250).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_MARKS)).split())


def short_answer(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the final answer equals one of the accepted answers, else 0.0. `plain_words` prepares both for the comparison."""
    if not has_answer(problem.answer):
        return NOT_APPLICABLE
    accepted = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
    said = plain_words(final_answer(completion))
    return float(bool(said) and said in {plain_words(str(one)) for one in accepted})


def expression(problem: Problem, completion: str) -> Outcome:
    """1.0 if the final answer is an expression of all numbers in `nums`, each used once, with the answer as its value; else 0.0.

    Only the part before "=" counts. Allowed are + - * / and brackets. The result for a problem without `nums` is NOT_APPLICABLE.
    """
    numbers = problem.meta.get("nums")
    if not has_answer(problem.answer) or not numbers:
        return NOT_APPLICABLE
    said = final_answer(completion).partition("=")[0].strip().replace("×", "*").replace("÷", "/").replace("−", "-")
    found = computed(said)
    return float(found is not None and found[0] == Fraction(str(problem.answer)) and found[1] == Counter(int(n) for n in numbers))


def computed(text: str) -> tuple[Fraction, Counter[int]] | None:
    """Returns (value, the count of each number) of an arithmetic expression; None if the text is no arithmetic expression, or if the expression divides by
    0."""
    if not 0 < len(text) <= _LONGEST or not set(text) <= _SYMBOLS:
        return None
    used: Counter[int] = Counter()

    def of(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                used[number] += 1
                return Fraction(number)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return of(left) + of(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return of(left) - of(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return of(left) * of(right)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return of(left) / of(right)
        raise ValueError("another operation")

    try:
        return of(ast.parse(text, mode="eval").body), used
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def roles(problem: Problem, completion: str) -> Outcome:
    """1.0 if the completion gives every person of the answer the right role, else 0.0. The last "NAME is a ROLE" of a person counts.

    The result is NOT_APPLICABLE if the problem's answer has no sentence "NAME is a ROLE".
    """
    expected = {name.lower(): role.lower() for name, role in _ROLE.findall(str(problem.answer or ""))}
    if not expected:
        return NOT_APPLICABLE
    said = {name.lower(): role.lower() for name, role in _ROLE.findall(completion)}
    return float(all(said.get(name) == role for name, role in expected.items()))
