"""Messages as bytes, and errors that cross a link."""

from __future__ import annotations

import pytest
import torch

from gradus.systems.link import HEADER, answer, check_answer, error_document, frame_size, framed, unframed
from gradus.types import UserError
from gradus.types.errors import RaisedElsewhere


class Adder:
    verbs = frozenset({"add", "fail"})

    def add(self, document, arrays):
        return {"sum": document["a"] + document["b"]}, {"double": 2 * arrays["x"]}

    def fail(self, document, arrays):
        raise document["with"]

    def hidden(self, document, arrays):
        raise AssertionError("no verb")


def test_a_message_is_its_lengths_its_json_and_its_tensors():
    data = framed({"do": "add", "a": 1.5}, {"x": torch.tensor([1, 2], dtype=torch.int16)})
    words, arrays = HEADER.unpack(data[:16])
    assert (words, len(data)) == (len(b'{"do": "add", "a": 1.5}'), 16 + words + arrays)
    assert data[16 : 16 + words] == b'{"do": "add", "a": 1.5}'
    document, found = unframed(data)
    assert document == {"do": "add", "a": 1.5}
    assert found["x"].dtype == torch.int16
    assert found["x"].tolist() == [1, 2]
    found["x"] += 1  # writable
    assert framed({}) == HEADER.pack(2, 0) + b"{}"


@pytest.mark.parametrize("cut", [0, 15])
def test_the_size_of_a_message_is_unknown_before_its_lengths_have_come(cut):
    assert frame_size(framed({"a": 1})[:cut]) is None
    assert frame_size(framed({"a": 1})[:16]) == 16 + 8


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x"])
def test_part_of_a_message_is_refused(change):
    with pytest.raises(ValueError, match="header gives the length 24"):
        unframed(change(framed({"a": 1})))


def test_a_worker_answers_by_its_verbs_only():
    document, arrays = answer(Adder(), {"do": "add", "a": 1, "b": 2}, {"x": torch.ones(2)})
    assert document == {"sum": 3}
    assert arrays["double"].tolist() == [2, 2]
    document, _ = answer(Adder(), {"do": "hidden"}, {})
    with pytest.raises(UserError, match="Adder has no answer to the message hidden"):
        check_answer(document, "worker 1")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (UserError("give more"), UserError, "^give more$"),
        (MemoryError("full"), MemoryError, "^full$"),
        (torch.OutOfMemoryError("full"), torch.OutOfMemoryError, "^full$"),
        (RaisedElsewhere("KeyError: 'a' (mine.py, line 3)"), RaisedElsewhere, r"^KeyError: 'a' \(mine.py, line 3\)$"),
        (KeyError("place"), RuntimeError, "^KeyError in worker 1: 'place'$"),
    ],
)
def test_an_error_of_the_worker_is_raised_here(error, kind, text):
    with pytest.raises(kind, match=text):
        check_answer(answer(Adder(), {"do": "fail", "with": error}, {})[0], "worker 1")
    assert error_document(error)["error"] == str(error)
    check_answer({"sum": 3}, "worker 1")  # no error
