import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.tasks.files import read_table
from gradus.tasks.rows import Columns, RowSource, check_rows, choose_columns, content_hash, hold_out, problem_of
from gradus.types import Key, UserError

CHAT = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "2 + 2 ="}]


def table(folder, *rows):
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_table(path)


def of(row, **names):
    return problem_of(row, choose_columns(row, "here", **names), id="d/0", task="d", where="here")


def test_a_plain_row():
    problem = of({"prompt": "2 + 2 =", "answer": 4, "source": "book", "n": None})
    assert problem.messages == ({"role": "user", "content": "2 + 2 ="},)
    assert problem.plain
    assert problem.answer == 4
    assert dict(problem.meta) == {"source": "book", "n": None}


def test_a_chat_row_keeps_its_messages_and_drops_null_fields():
    problem = of({"messages": [{**m, "name": None} for m in CHAT], "solution": "4"})
    assert problem.messages == tuple(CHAT)
    assert not problem.plain
    assert problem.answer == "4"
    assert problem.meta["solution"] == "4"  # reward functions get the column under its own name


def test_named_columns_and_the_order_of_the_usual_ones():
    row = {"question": "q", "prompt": "p", "label": "l", "answer": "a", "topic": "t", "gold": "g"}
    assert choose_columns(row, "here") == Columns("prompt", "answer")
    assert choose_columns(row, "here", prompt="topic", answer="gold") == Columns("topic", "gold")
    assert choose_columns({"question": "q", "label": 1}, "here") == Columns("question", "label")
    assert of(row, prompt="topic", answer="gold").meta["gold"] == "g"


@pytest.mark.parametrize(
    ("row", "solution"),
    [
        ({"prompt": "p", "solution": "worked", "completion": "other"}, "worked"),
        ({"prompt": "p", "completion": "worked"}, "worked"),
        ({"prompt": CHAT, "completion": [{"role": "assistant", "content": "worked"}]}, "worked"),
        ({"messages": [*CHAT, {"role": "assistant", "content": "worked"}]}, "worked"),
        ({"question": "q", "answer": "worked\n#### 4"}, "worked\n#### 4"),
        ({"question": "q", "answer": "4"}, None),
    ],
)
def test_worked_solutions_are_found(row, solution):
    assert of(row).meta.get("solution") == solution


def test_an_answered_chat_is_asked_again():
    assert of({"messages": [*CHAT, {"role": "assistant", "content": "4"}]}).messages == tuple(CHAT)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"prompt": "fine", "prompts": 1}, 'the column "prompts" has a name that reward functions get from training; rename it'),
        ({"text": "x", "id": 1}, 'say which holds the prompt with prompt_column (columns: "text", "id")'),
        ({"prompt": None}, '"prompt" is missing; every row needs one'),
        ({"prompt": "  "}, '"prompt" is empty'),
        ({"prompt": 5}, '"prompt" is a number; it must be text or a list of chat messages'),
        ({"prompt": {"role": "user"}}, '"prompt" is an object'),
        ({"prompt": []}, '"prompt" is an empty list'),
        ({"prompt": ["hello"]}, 'message 1 of "prompt" is text; it must be an object with "role" and "content"'),
        ({"prompt": [CHAT[0], {"content": "x"}]}, 'message 2 of "prompt": "role" is missing; it must be text'),
        ({"prompt": [{"role": "user", "content": ["x"]}]}, 'message 1 of "prompt": "content" is a list; it must be text'),
        ({"prompt": [*CHAT, {"role": "assistant", "content": "4"}]}, '"prompt" ends with the assistant\'s turn'),
        ({"messages": [{"role": "assistant", "content": "4"}]}, '"messages" ends with the assistant\'s turn'),
        ({"prompt": "half \ud800"}, "holds half of a surrogate pair"),
    ],
)
def test_a_bad_row_is_a_sentence_with_its_place(row, sentence):
    with pytest.raises(UserError) as caught:
        of(row)
    assert str(caught.value).startswith("here: ")
    assert sentence in str(caught.value)


def test_a_column_that_is_not_there_is_suggested():
    with pytest.raises(UserError, match=r'unknown column "promt" \(did you mean prompt\?\).*Looked for it in here'):
        choose_columns({"prompt": "x"}, "here", prompt="promt")


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ({"prompt": CHAT}, 'line 2: "prompt" is a list of messages, but text in the first row; use one form'),
        ({"answer": 1}, 'line 2: "prompt" is missing; every row needs one, as the first row has'),
        ({"prompt": "x", "label": 1}, 'line 2: has "label", but the first row has not'),
    ],
)
def test_rows_must_agree_with_the_first(tmp_path, second, sentence):
    with pytest.raises(UserError) as caught:
        check_rows(table(tmp_path, {"prompt": "x"}, second))
    assert sentence in str(caught.value)


def test_what_every_row_brings_is_provided(tmp_path):
    rows = ({"prompt": "a", "answer": "1", "hints": ["h"], "tests": "t"}, {"prompt": "b", "answer": None, "hints": ["h"], "tests": None})
    checked = check_rows(table(tmp_path, *rows))
    assert checked.provides == {"hints"}
    assert checked.answered == 1


def test_problems_are_drawn_by_index_whatever_the_level_and_key(tmp_path):
    rows = table(tmp_path, *({"prompt": f"p{n}", "answer": n} for n in range(4)))
    source = RowSource(rows, Columns("prompt", "answer"), "data", np.array([1, 3]), 2)
    problems = source.draw([1, 0, 1], 7, Key(5))
    assert [p.id for p in problems] == ["data/3", "data/1", "data/3"]
    assert [p.answer for p in problems] == [3, 1, 3]


def test_a_tenth_is_held_out_and_at_most_256():
    training, held = hold_out(np.arange(100, dtype=np.uint64)[::-1])
    assert held.tolist() == list(range(90, 100))  # the ten smallest of the hashes 99..0 stand last
    assert training.tolist() == list(range(90))
    assert [len(hold_out(np.arange(n, dtype=np.uint64))[1]) for n in (2, 14, 16, 2550, 10_000)] == [1, 1, 2, 255, 256]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=200))
def test_duplicates_never_straddle(hashes):
    array = np.array(hashes, dtype=np.uint64)
    training, held = hold_out(array)
    assert not set(array[training]) & set(array[held])
    assert len(set(array[held])) == len(held)
    assert set(array[training]) | set(array[held]) == set(array)
    assert sorted(training) == list(training)


def test_the_hash_is_of_what_is_asked_only():
    (message,) = of({"prompt": "x"}).messages
    assert content_hash((message,)) == content_hash(({**message, "name": "Ann"},))
    assert content_hash((message,)) != content_hash(({"role": "user", "content": "y"},))
    # printf '[["user", "x"]]' | b2sum -l 64 gives 0f75bc7fdae44579, lowest byte first: the split of a file is the same in every version
    assert content_hash((message,)) == 0x7945E4DA7FBC750F


def test_case_and_spacing_do_not_part_prompts():
    one, other = ({"role": "user", "content": "What  is\n3 - 4?"},), ({"role": "user", "content": "what is 3 - 4?"},)
    assert content_hash(one) == content_hash(other)
    assert content_hash(one) != content_hash(({"role": "user", "content": "what is 3 + 4?"},))
