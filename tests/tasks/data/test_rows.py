import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.tasks.data.files import read_table
from gradus.tasks.data.loaders import load_task_file
from gradus.tasks.data.rows import Columns, RowSource, check_rows, choose_columns, content_hash, hold_out, problem_of
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


def test_a_text_prompt_stays_raw_and_messages_stay_messages():
    row = {"prompt": " 2 + 2 =", "answer": 4, "source": "book"}
    columns = choose_columns(row, "here")
    raw = problem_of(row, columns, id="d/0", task="d", where="here", raw=True)
    assert (raw.text, raw.messages, raw.plain, raw.answer, dict(raw.meta)) == (" 2 + 2 =", (), False, 4, {"source": "book"})
    chat = problem_of({"prompt": CHAT}, columns, id="d/0", task="d", where="here", raw=True)
    assert (chat.text, chat.messages) == (None, tuple(CHAT))


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
        ({"prompt": "fine", "prompts": 1}, 'the column name "prompts" is reserved, because reward functions have an argument with this name; rename the column'),
        ({"text": "x", "id": 1}, 'name the column of the prompts with --task.prompt_column NAME (columns: "text", "id")'),
        ({"prompt": None}, '"prompt" is missing, but the first row has this column'),
        ({"prompt": "  "}, '"prompt" is empty'),
        ({"prompt": 5}, '"prompt" is a number; it must be text or a list of chat messages'),
        ({"prompt": {"role": "user"}}, '"prompt" is an object'),
        ({"prompt": []}, '"prompt" is an empty list'),
        ({"prompt": ["hello"]}, 'message 1 of "prompt" is text; it must be an object with "role" and "content"'),
        ({"prompt": [CHAT[0], {"content": "x"}]}, 'message 2 of "prompt": "role" is missing; it must be text'),
        ({"prompt": [{"role": "user", "content": ["x"]}]}, 'message 1 of "prompt": a part of "content" is text; it must be an object with "type"'),
        ({"prompt": [*CHAT, {"role": "assistant", "content": "4"}]}, '"prompt" ends with the assistant\'s turn'),
        ({"messages": [{"role": "assistant", "content": "4"}]}, '"messages" ends with the assistant\'s turn'),
        ({"prompt": "half \ud800"}, "contains half of a surrogate pair"),
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
        ({"answer": 1}, 'line 2: "prompt" is missing, but the first row has this column; give the column to every row'),
        ({"prompt": "x", "label": 1}, 'line 2: has "label", but the first row lacks it'),
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


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=200))
def test_duplicates_never_straddle(hashes):
    array = np.array(hashes, dtype=np.uint64)
    training, held = hold_out(array)
    assert not set(array[training]) & set(array[held])
    assert sorted([*training, *held]) == list(range(len(array)))  # every row is on one side
    assert sorted(training) == list(training)
    assert sorted(held) == list(held)


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


ODD = '{"prompt": "a", "answer": 1}\n{"prompt": "b"\n\n{"answer": 2}\n[1]\n{"prompt": "c", "answer": 3}\n{"prompt": 4}\n{"prompt": "d", "answer": 4}\n'


def test_bad_rows_are_left_out_with_line_field_and_reason(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(ODD)
    checked = check_rows(read_table(path), bad_rows=0.6)  # 4 of 7
    assert checked.rows.tolist() == [0, 4, 6]
    assert [(b.file, b.place, b.field) for b in checked.bad] == [
        (str(path), "line 2", None),
        (str(path), "line 4", "prompt"),
        (str(path), "line 5", None),
        (str(path), "line 7", "prompt"),
    ]
    assert [b.text for b in checked.bad] == ['{"prompt": "b"', '{"answer": 2}', "[1]", '{"prompt": 4}']
    assert [b.reason.partition(";")[0] for b in checked.bad] == [
        "not valid JSON at character 15: Expecting ',' delimiter",
        "is missing, but the first row has this column",
        "contains a list, not an object",
        "is a number",
    ]
    assert len(checked.hashes) == checked.answered == 3


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        (0.0, "data.jsonl, line 2: not valid JSON"),
        (0.5, 'data.jsonl: 4 of 7 rows are bad, but --task.bad_rows allows a share of 0.5; the first bad row is line 2: not valid JSON at character 15'),
        (1.5, "--task.bad_rows is 1.5; give a number from 0 to 1, the largest share of bad rows"),
    ],
)
def test_more_bad_rows_than_are_allowed_stop_the_reading(tmp_path, share, sentence):
    path = tmp_path / "data.jsonl"
    path.write_text(ODD)
    with pytest.raises(UserError) as caught:
        check_rows(read_table(path), bad_rows=share)
    assert sentence in str(caught.value)


def test_a_table_of_bad_rows_alone_is_refused_whatever_is_allowed(tmp_path):
    for name, content in (("data.jsonl", "[1]\n[2]\n"), ("data.csv", "prompt,answer\na,b,c\n")):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(UserError, match=rf"{name}: no row can be used; the first bad row is (line 1|row 2): "):
            check_rows(read_table(path, lossy=True), bad_rows=1.0)


def test_csv_rows_of_another_length_are_bad_rows_and_the_others_keep_their_numbers(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('prompt,answer\na,1\nb,2,3\n"c\nd",4\ne\n"  ",5\nf,6\n')
    table = read_table(path, lossy=True)
    checked = check_rows(table, bad_rows=0.5)
    assert [table.where(i) for i in checked.rows] == [f"{path}, row {n}" for n in (2, 4, 7)]
    assert [(b.place, b.field, b.text) for b in checked.bad] == [
        ("row 3", None, "b,2,3"),
        ("row 5", None, "e"),
        ("row 6", "prompt", '{"prompt": "  ", "answer": 5}'),
    ]
    with pytest.raises(UserError, match=r"data.csv, row 3: has 3 values for 2 columns; fix the row"):
        read_table(path)


def test_a_task_of_a_file_with_bad_rows_trains_on_the_sound_ones(tmp_path):
    path = tmp_path / "data.jsonl"
    sound = "".join(json.dumps({"prompt": f"p{n}", "answer": n}) + "\n" for n in range(20))
    path.write_text('{"prompt"\n' + sound)
    task = load_task_file(path, bad_rows=0.1)
    drawn = [*task.source.draw(range(task.source.size), None, Key()), *task.held_out.draw(range(task.held_out.size), None, Key())]
    assert sorted(p.answer for p in drawn) == list(range(20))
    assert all(p.id == f"data/{p.answer + 1}" for p in drawn)  # ids count every row, so that they do not move when one is fixed
    assert task.about.endswith("; 1 bad rows left out")
    assert [b.place for b in task.source.bad] == ["line 1"]
    with pytest.raises(UserError, match=r"data.jsonl, line 1: not valid JSON"):
        load_task_file(path)


def test_the_first_valid_row_decides_on_the_columns(tmp_path):
    checked = check_rows(table(tmp_path, {"prompt": 4}, {"prompt": "a", "answer": 1}, {"prompt": "b", "answer": 2}), bad_rows=0.5)
    assert (checked.columns, checked.rows.tolist()) == (Columns("prompt", "answer"), [1, 2])
