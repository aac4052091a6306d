"""Predictions of a policy about its solutions: pass rate, length and notions. A form reads and writes such predictions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Protocol

_OBJECT = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True)
class SelfPrediction:
    """The expected numbers and notions of solutions. None: the part is missing or has a wrong type."""

    rate: int | None = None  # expected number of right solutions, 0 to 8
    length: int | None = None  # expected tokens of a solution
    notions: tuple[str, ...] = ()


class Form(Protocol):
    """Reads and writes predictions. `write` replaces the prediction in `text` by this prediction, and keeps the words before it."""

    def read(self, text: str) -> SelfPrediction | None: ...

    def write(self, prediction: SelfPrediction, text: str = "") -> str: ...


@dataclass(frozen=True)
class Json:
    """The last {...} of the text, with the keys math_notion, pass_rate and solution_length."""

    def read(self, text: str) -> SelfPrediction | None:
        found = _OBJECT.findall(text)
        try:
            row = json.loads(found[-1]) if found else None
        except json.JSONDecodeError:
            return None
        if not isinstance(row, dict):
            return None
        rate, length, notions = (row.get(name) for name in ("pass_rate", "solution_length", "math_notion"))
        words = tuple(str(n) for n in notions) if isinstance(notions, list) else tuple(str(notions or "").split(","))
        whole = [v if isinstance(v, int) and not isinstance(v, bool) else None for v in (rate, length)]
        return SelfPrediction(whole[0] if whole[0] in range(9) else None, whole[1], tuple(w.strip() for w in words if w.strip()))

    def write(self, prediction: SelfPrediction, text: str = "") -> str:
        made = json.dumps({"math_notion": list(prediction.notions), "pass_rate": prediction.rate, "solution_length": prediction.length})
        places = [match.start() for match in _OBJECT.finditer(text)]
        return text[: places[-1]] + made if places else made


@dataclass(frozen=True)
class Numbers:
    """A digit from 0 to 8, and the next whole number as length. Further words are notions. For small models. `write` keeps no words of the text."""

    def read(self, text: str) -> SelfPrediction | None:
        found = re.match(r"\D*([0-8])\D+(\d{1,6})(.*)", text, re.DOTALL)
        return SelfPrediction(int(found[1]), int(found[2]), tuple(re.findall(r"[a-z]+", found[3]))) if found else None

    def write(self, prediction: SelfPrediction, text: str = "") -> str:
        return " ".join(map(str, (prediction.rate, prediction.length, *prediction.notions)))


def singular(word: str) -> str:
    """Returns a word in lower case without the ending of a regular plural.

    >>> [singular(w) for w in ("Identities", "boxes", "medians", "class", "series")]
    ['identity', 'box', 'median', 'class', 'series']
    """
    low = word.lower()
    if low.endswith("series"):
        return low
    if low.endswith("ies"):
        return low[:-3] + "y"
    if low.endswith(("ches", "shes", "xes", "zes", "oes")):
        return low[:-2]
    return low[:-1] if low.endswith("s") and not low.endswith("ss") else low
