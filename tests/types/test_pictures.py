"""Plain forms: every array once, places and digests as JSON."""

import json

import numpy as np

from gradus.types import Seen, prompt_context
from gradus.types.packing import packed, unpacked
from gradus.types.pictures import arrays_of, described, read, reference, restored, seen_from, written
from tests.pictures import answered, media, message, shown


def test_what_a_context_shows_comes_back_from_json_and_arrays() -> None:
    context = shown(1, 2, 1)
    arrays = arrays_of([context, shown(1)])
    assert sorted(arrays) == sorted({media(1).digest, media(2).digest})  # each once
    told = json.loads(json.dumps(described(context)))
    back = prompt_context(context.tokens, seen_from(told, arrays.__getitem__))
    assert back.things == context.things
    assert back.beginning(8) == context.beginning(8)


def test_arrays_of_a_controller_are_one_block() -> None:
    first = Seen("state", "array", np.arange(4.0).reshape(1, 4), np.array([0], np.int32), np.array([1], np.int32))
    context = prompt_context([0, 0, 0], (first, first.moved(2)))
    arrays = arrays_of([context])
    assert [a.shape for a in arrays.values()] == [(2, 4)]
    back = prompt_context([0, 0, 0], seen_from(described(context), arrays.__getitem__))
    assert back.things == context.things


def test_a_message_with_references_gets_its_media_back() -> None:
    told = message(3)
    arrays = arrays_of([], [[told]])
    plain = {**told, "content": [{**p, "media": reference(p["media"])} if "media" in p else p for p in told["content"]]}
    assert restored(json.loads(json.dumps(plain)), arrays.__getitem__) == told
    text = {"role": "user", "content": "a"}
    assert restored(text, arrays.__getitem__) is text


def test_media_in_packed_values_stay_media() -> None:
    value = (message(1), {"again": media(1)})
    assert unpacked(json.loads(json.dumps(packed(value)))) == value
    held: dict[str, np.ndarray] = {}
    told = json.loads(json.dumps(packed(value, held)))
    assert list(held) == [media(1).digest]
    assert unpacked(told, held) == value
    assert read(json.loads(json.dumps(written(media(7))))) == media(7)


def test_only_own_tokens_are_described() -> None:
    assert described(answered(shown(1), 4)) == []
