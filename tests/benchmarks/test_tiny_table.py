from __future__ import annotations

from benchmarks.tiny_table import row, within
from gradus.study.evaluate import Exam
from gradus.study.passk import Interval


def exam(one: float, many: float, greedy: float, chance: float = 0.0) -> Exam:
    def flat(mean: float) -> Interval:
        return Interval(mean, mean, mean, 0.95)

    return Exam("arithmetic", 256, 16, 1.0, {1: flat(one), 16: flat(many)}, None, flat(greedy), None, flat(12.5), 0, chance)


def test_bounds() -> None:
    assert within(exam(0.30, 0.95, 0.5))
    assert not within(exam(0.19, 0.95, 0.5))
    assert not within(exam(0.46, 0.95, 0.5))
    assert not within(exam(0.30, 0.89, 0.5))
    assert not within(exam(0.30, 0.95, 0.61))
    assert not within(exam(0.26, 0.95, 0.5, chance=0.12))  # 0.12 + 0.15 = 0.27


def test_a_row_gives_all_four_numbers() -> None:
    assert row(exam(0.3, 0.95, 0.5, 0.12)) == "| arithmetic | 0.120 | 0.300 | 0.950 | 0.500 | 12.5 | yes |"
