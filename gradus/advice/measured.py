"""The measurements that support the rules. On each ground, a comparison of the first advised recipe with GRPO. Other seeds were used to choose the rules.

The command `python -m benchmarks.advice` writes `measured.json`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradus.comparison.calibrate import stored
from gradus.comparison.experiment import arm_of
from gradus.comparison.ground import ground_of
from gradus.comparison.measures import Measure
from gradus.lab.atomic_files import encode, write

PLACE = Path(__file__).parent / "measured.json"


@dataclass(frozen=True)
class Row:
    """The comparison on one ground.

    `mean`, `low`, `high`: the difference of the first recipe and the reference; None if the two recipes are the same.
    """

    ground: str
    rule: str
    first: str  # the first recipe in the words of `gradus compare`
    reference: str
    measure: str
    value: float | None  # the measure of the first recipe
    against: float | None  # the measure of the reference
    mean: float | None
    low: float | None
    high: float | None
    level: float
    seeds: tuple[int, ...]
    source: str  # hash of the code that made the measurement
    accuracy: float | None = None  # accuracy of the first recipe, if another measure is used
    accuracy_against: float | None = None  # accuracy of the reference, if another measure is used

    @property
    def verdict(self) -> str:
        """ Returns "better", "not worse" or "worse", by the interval; "the same" if the first recipe is the reference."""
        if self.low is None or self.high is None:
            return "the same"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "not worse"

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "seeds": list(self.seeds), "verdict": self.verdict}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Row:
        """Makes a row from the values that `document` returned."""
        return cls(**{**{name: value for name, value in stored.items() if name != "verdict"}, "seeds": tuple(stored["seeds"])})


@functools.cache
def rows() -> dict[str, Row]:
    """Returns the stored rows by ground; empty if nothing has been measured."""
    if not PLACE.is_file():
        return {}
    return {row.ground: row for row in map(Row.read, json.loads(PLACE.read_text())["grounds"])}


def row_of(ground: str) -> Row | None:
    return rows().get(ground)


def row_of_pair(ground: str, rule: str) -> Row | None:
    """If GRPO cannot be used under a rule, the calibrated pair of a ground replaces the comparison. Returns this pair as a row; None if the ground is not
    calibrated.
    """
    found = stored(ground_of(ground))
    if found is None:
        return None
    pair, sign = found["pair"], Measure(found["pair"]["measure"]).sign
    arms = {arm["name"]: arm for arm in found["arms"]}
    better, worse = (arms[arm_of(pair[side]).name] for side in ("better", "worse"))
    low, high = sorted((sign * pair["low"], sign * pair["high"]))
    gap = (better["final"], worse["final"], sign * pair["mean"], low, high, pair["level"], tuple(range(len(better["seeds"]))))
    return Row(ground, rule, _plain(pair["better"]), _plain(pair["worse"]), pair["measure"], *gap, found["source"])


def _plain(words: str) -> str:
    """Returns the words of an arm without the arm's name and `=`.

    >>> _plain("hot=sft --learning_rate 1e-3"), _plain("dpo")
    ('sft --learning_rate 1e-3', 'dpo')
    """
    arm = arm_of(words)
    return " ".join([arm.recipe, *(word for name, value in arm.fields for word in (f"--{name}", value))])


def keep(row: Row) -> None:
    """Stores a row. The row replaces the earlier row of its ground."""
    kept = {**rows(), row.ground: row}
    write(PLACE, encode({"grounds": [kept[name].document() for name in sorted(kept)]}))
    rows.cache_clear()
