from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from gradus.tasks.data.gsm8k import gsm8k, last_number, verify
from gradus.types import Key, Problem, UserError

ROWS = [
    {
        "question": f"Ann has {n} apples and buys {n} more. How many has she?",
        "answer": f"{n} + {n} = <<{n}+{n}={2 * n}>>{2 * n}\n#### {2 * n:,}",
    }
    for n in range(500, 600)
]
REAL = Path(__file__).parents[4] / "shared/data/gsm8k/train.jsonl"


def write(path: Path, rows: list[object]) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def test_problems_of_the_official_form(tmp_path: Path) -> None:
    task = gsm8k(write(tmp_path / "train.jsonl", ROWS[:40]), write(tmp_path / "test.jsonl", ROWS[30:50]))
    assert (task.source.size, task.held_out.size) == (30, 20)  # the ten rows that are in both files are not trained on
    p, q = task.source.draw([29, 0], None, Key(0))
    assert (p.question, p.answer, p.meta["solution"]) == (ROWS[29]["question"], "1058", ROWS[29]["answer"])
    assert q.id == "gsm8k-train-0"
    assert all(task.verify(r, r.meta["solution"]) == 1.0 for r in task.held_out.draw(range(20), None, Key(0)))


def test_without_a_second_file_a_share_of_the_first_is_held_out(tmp_path: Path) -> None:
    task = gsm8k(write(tmp_path / "train.jsonl", ROWS))
    assert task.source.size + task.held_out.size == 100
    assert 0 < task.held_out.size < 30
    drawn, kept = (s.draw(range(s.size), None, Key(0)) for s in (task.source, task.held_out))
    assert not {p.question for p in drawn} & {p.question for p in kept}


def test_the_final_number_by_hand() -> None:
    texts = ("#### 1,080", "so $2,000.50 in all", r"\boxed{7} is it", "10-5 is 5", "-3", "it is $-4.", "none", "1,2", "3.0 and 12.")
    assert [last_number(t) for t in texts] == [1080, Fraction("2000.5"), 7, 5, -3, -4, None, 2, 12]


def test_what_counts_as_the_answer() -> None:
    p = Problem("x", "gsm8k", answer="1080")
    right = (
        "#### 1080",
        "#### $1,080.00",
        "He has 3. So 1080.",
        r"\boxed{1,080}",
        "#### 1\n#### 1080",
        "answer: 1080 apples",
        r"\boxed{1,080",
    )
    wrong = ("", "#### 108", "1080 or 5", "#### 1080 5", "one thousand", "9" * 100_000, "####", "1_080")
    assert [verify(p, t) for t in right] == [1.0] * len(right)
    assert [verify(p, t) for t in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"question": "How many?"}, 'train.jsonl, line 3: a row of GSM8K must have text in the fields "question" and "answer"'),
        ({"question": "How many?", "answer": "about ten"}, 'train.jsonl, line 3: "answer" must end with "####" and a number'),
        ({"question": 5, "answer": "#### 5"}, 'line 3: a row of GSM8K must have text in the fields "question" and "answer"'),
        ("{not json", "train.jsonl, line 3: not valid JSON"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, row: object, says: str) -> None:
    task = gsm8k(write(tmp_path / "train.jsonl", [*ROWS[:2], row]))
    with pytest.raises(UserError) as error:
        task.source.draw([0], None, Key(0))
    assert says in str(error.value)


def test_a_missing_path_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"give the official train.jsonl"):
        gsm8k().source.draw([0], None, Key(0))
    with pytest.raises(UserError, match="there is no file"):
        gsm8k(str(tmp_path / "none.jsonl")).source.draw([0], None, Key(0))


@pytest.mark.skipif(not REAL.is_file(), reason="the official files are not on this machine")
def test_the_official_file_whole() -> None:
    task = gsm8k(str(REAL), str(REAL.with_name("test.jsonl")))
    assert (task.source.size, task.held_out.size) == (7473, 1319)
    assert all(task.verify(p, p.meta["solution"]) == 1.0 for p in task.source.draw(range(7473), None, Key(0)))
