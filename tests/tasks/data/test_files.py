import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from gradus.tasks.data.files import CHUNK, chunks, read_table
from gradus.types import UserError

ROWS = [{"prompt": f"{n} + 1 =", "answer": n + 1, "tags": ["a", "b"]} for n in range(5)]


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_json_lines_keep_the_order_and_name_lines_across_blank_ones(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 0}\n\n  \n{"a": "\xc3\xa9"}\r\n{"a": 2}')  # mark, blank lines, no last newline
    table = read_table(path)
    assert table.rows([2, 0, 1]) == [{"a": 2}, {"a": 0}, {"a": "é"}]
    assert [table.where(i) for i in range(3)] == [f"{path}, line 1", f"{path}, line 4", f"{path}, line 5"]


def test_parquet_csv_and_json_lines_give_the_same_rows(tmp_path):
    rows = [{"prompt": row["prompt"], "answer": row["answer"]} for row in ROWS]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "data.parquet")
    (tmp_path / "data.csv").write_text("prompt,answer\n" + "".join(f"{r['prompt']},{r['answer']}\n" for r in rows))
    jsonl(tmp_path / "data.jsonl", rows)
    for kind in ("parquet", "csv", "jsonl"):
        table = read_table(tmp_path / f"data.{kind}")
        assert len(table) == 5
        assert table.rows(range(5)) == rows
        assert table.rows([4, 1, 1]) == [rows[4], rows[1], rows[1]]


def test_csv_prompts_stay_text_and_may_hold_line_breaks(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('prompt,label\n007,1\n"two\nlines, and a comma",2\n')
    assert read_table(path).rows([0, 1]) == [{"prompt": "007", "label": 1}, {"prompt": "two\nlines, and a comma", "label": 2}]
    assert read_table(path).where(0) == f"{path}, row 2"
    path.write_text("id,text\n1,5\n2,6\n")
    assert read_table(path, "text").rows([1]) == [{"id": 2, "text": "6"}]


def test_a_csv_column_is_of_numbers_only_where_nothing_is_lost_by_it(tmp_path):
    path = tmp_path / "data.csv"
    kept = {"whole": [7, -3], "real": [0.5, 12.25], "gap": [1, None], "python": [1.0, 1e-05], "mixed": [2.0, None]}
    text = {
        "zeros": ["007", "8"],
        "big": ["123456789012345678901234567890", "1"],
        "power": ["1e5", "2"],
        "day": ["2020-01-01", "2020-01-02"],
        "hour": ["12:30:00", "1:00:00"],
        "yes": ["true", "false"],
        "none": ["NA", "null"],
        "price": ["2.50", "3"],
        "version": ["1.10", "1.2"],
        "endless": ["inf", "1.5"],
        "nothing": ["nan", "1.5"],
        "empty": ["", ""],
    }
    columns = {"prompt": ["a", "b"], **kept, **text}
    rows = [",".join("" if values[i] is None else str(values[i]) for values in columns.values()) for i in range(2)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    assert read_table(path).rows([0, 1]) == [{name: values[i] for name, values in columns.items()} for i in range(2)]


def test_empty_lines_of_a_csv_are_no_rows_but_count(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"prompt,answer\r\na,1\r\n\r\n\r\nb,2\r\n,\r\nc,\r\n\r\n")
    table = read_table(path)
    assert table.rows(range(3)) == [{"prompt": "a", "answer": 1}, {"prompt": "b", "answer": 2}, {"prompt": "c", "answer": None}]
    assert [table.where(i) for i in range(3)] == [f"{path}, row {n}" for n in (2, 5, 7)]
    path.write_text("prompt,answer\na,1\n\nb,2,3\n")
    with pytest.raises(UserError, match="row 4: has 3 values for 2 columns"):
        read_table(path)
    path.write_text("prompt\na\n\nb\n\n")
    assert [row["prompt"] for row in read_table(path).rows([0, 1])] == ["a", "b"]


def test_chunks_cover_every_row_once(tmp_path):
    table = read_table(jsonl(tmp_path / "data.jsonl", [{"n": n} for n in range(CHUNK + 3)]))
    found = list(chunks(table))
    assert [start for start, _ in found] == [0, CHUNK]
    assert [row["n"] for _, rows in found for row in rows] == list(range(CHUNK + 3))


def test_json_lines_hold_no_copy_of_the_text(tmp_path):
    table = read_table(jsonl(tmp_path / "data.jsonl", [{"prompt": "x" * 10_000}] * 50))
    held = sum(a.nbytes for a in vars(table).values() if isinstance(a, np.ndarray))
    assert held == 50 * 2 * 8  # an offset and a line number of 8 bytes a row


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"prompt": "x"', "line 2: not valid JSON at character 15: Expecting ',' delimiter"),
        (b"[1, 2]", "line 2: contains a list, not an object"),
        (b'"text"', "line 2: contains text, not an object"),
        (b'{"answer": NaN}', "line 2: not valid JSON: NaN is not allowed in JSON; write null in its place"),
        (b'{"prompt": "\xff"}', "line 2: byte 13 is not UTF-8"),
        (b"[" * 100_000, "line 2: not valid JSON"),
        (b'{"answer": ' + b"9" * 5000 + b"}", "line 2: not valid JSON: a number has more than 4,300 digits; fix the line"),
        (b'{"answer": 1e999}', "line 2: not valid JSON: 1e999 is too large for a number; write the value as text in quotes"),
        (b'{"prompt": "x", "answer": 1, "answer": 2}', 'line 2: not valid JSON: "answer" occurs twice in one object; remove one of the two'),
        (b'{"prompt": "x", "meta": {"a": 1, "a": 1}}', '"a" occurs twice in one object'),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, sentence):
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"prompt": "fine"}\n' + line + b"\n")
    with pytest.raises(UserError) as caught:
        read_table(path).rows([0, 1])
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data.jsonl", b"", "has no rows"),
        ("data.jsonl", b"\n \n", "has no rows"),
        ("data.csv", b"", "has no rows"),
        ("data.csv", b"prompt,answer\n", "has no rows"),
        (
            "data.csv",
            b"prompt,answer\na,1\nb,2,3\n",
            "data.csv, row 3: has 3 values for 2 columns; fix the row, or quote values with commas",
        ),
        ("data.csv", b"prompt,a,a\nx,1,2\n", 'two columns named "a"'),
        ("data.csv", b"prompt\n\xff\xfe\n", "not a readable CSV file"),
        ("data.parquet", b"not parquet", "not a readable Parquet file"),
        ("data.json", b'[{"prompt": "x"}, 3]', "data.json, item 2: contains a number, not an object; every item must be an object"),
        ("data.json", b'[{"prompt": "x"},', "data.json is not a valid JSON array: "),
        ("data.json", b"[]", "has no rows"),
        ("data.xlsx", b"x", 'ends in ".xlsx", and Gradus does not read such files; save the sheet as .csv'),
        ("data.arrow", b"x", "convert it to one of .jsonl"),
        ("data.jsonl.gz", b"x", "unpack it: gunzip --keep "),
        ("data.jsonl", b'[{"prompt": "x"},\n{"prompt": "y"}]', "is one JSON array; rename it to "),
        ("data.csv", "prompt,answer\nx,1\n".encode("utf-16"), "is written in UTF-16; save it as UTF-8"),
        ("data.csv", "prompt,r\u00e9ponse\nx,1\n".encode("latin-1"), "not a readable CSV file"),
        ("data", b"x", "has no ending, so its format is not known; add its kind to its name, as in "),
    ],
)
def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_table(tmp_path / name)
    assert sentence in str(caught.value)
    assert name in str(caught.value)


def test_missing_files_and_folders_are_sentences(tmp_path):
    with pytest.raises(UserError, match=r"there is no file .*absent\.jsonl"):
        read_table(tmp_path / "absent.jsonl")
    with pytest.raises(UserError, match="is a folder; give one file"):
        read_table(tmp_path)
