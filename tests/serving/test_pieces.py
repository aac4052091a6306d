"""Text of growing token sequences: the parts, joined, are the whole, for every tokenizer; a stop string is never sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.policies.tokenizer import Tokenizer, load_tokenizer
from gradus.serving.pieces import Decoded, Guarded
from tests.serving.conftest import WORDS


def cut(items: list[int], sizes: list[int]) -> list[list[int]]:
    """The items in parts of these sizes, the last part with the rest."""
    parts, at = [], 0
    for size in sizes:
        parts.append(items[at : at + size])
        at += size
    return [*parts, items[at:]]


def test_half_a_character_waits_for_the_other_half(bytes_folder: Path) -> None:
    tokenizer = load_tokenizer(bytes_folder)
    assert tokenizer is not None
    decoded = Decoded(tokenizer.text)
    euro = tokenizer.encode("𝄞", False)
    assert len(euro) == 4
    assert [decoded.add([token]) for token in euro] == ["", "", "", "𝄞"]
    assert (decoded.add(euro[:2]), decoded.end()) == ("", "\ufffd")


def test_a_look_ahead_changes_nothing(bytes_folder: Path) -> None:
    tokenizer = load_tokenizer(bytes_folder)
    assert tokenizer is not None
    decoded, tokens = Decoded(tokenizer.text), tokenizer.encode("the answer", False)
    for token in tokens:
        assert decoded.peek(token) == decoded.add([token])
    assert decoded.peek(tokenizer.encode("𝄞", False)[0]) == "\ufffd"
    assert decoded.end() == ""


@pytest.fixture(scope="module", params=["bytes", "metaspace", "wordpiece", "built in"])
def tokenizer(request: pytest.FixtureRequest, bytes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer; its printed form is short."""
    from tokenizers import Tokenizer as Made
    from tokenizers import decoders, models, pre_tokenizers, trainers

    from gradus.policies.tiny import folder

    at = {"bytes": bytes_folder, "built in": folder()}.get(request.param, tmp_path_factory.mktemp("made"))
    special = ["[UNK]", "</s>"]
    if request.param == "metaspace":
        made = Made(models.BPE(unk_token="[UNK]", byte_fallback=True))
        made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
        bytes_of = [f"<0x{n:02X}>" for n in range(256)]
        made.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=340, special_tokens=[*special, *bytes_of], show_progress=False))
        made = Made.from_str(made.to_str().replace('"special":true', '"special":false'))
        made.save(str(at / "tokenizer.json"))
    if request.param == "wordpiece":
        made = Made(models.WordPiece(unk_token="[UNK]"))
        made.pre_tokenizer, made.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece(cleanup=False)
        made.train_from_iterator(WORDS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False))
        made.save(str(at / "tokenizer.json"))
    found = load_tokenizer(at)
    assert found is not None
    return found


def check_parts(made: Tokenizer, tokens: list[int], sizes: list[int]) -> None:
    decoded = Decoded(made.text)
    parts = [decoded.add(part) for part in cut(tokens, sizes)]
    assert "".join([*parts, decoded.end()]) == made.text(np.array(tokens))


@given(data=st.data())
def test_the_parts_are_the_whole(tokenizer: Tokenizer, data: st.DataObject) -> None:
    sizes = st.lists(st.integers(1, 4), max_size=20)
    known = [n for n in range(340) if (name := tokenizer.name(n)) is not None and not name.startswith("<0x")]
    check_parts(tokenizer, data.draw(st.lists(st.sampled_from(known), max_size=40)), data.draw(sizes))
    check_parts(tokenizer, tokenizer.encode(data.draw(st.text("an ß€𝄞12.", max_size=20)), False), data.draw(sizes))


def test_the_start_of_a_stop_string_waits() -> None:
    guarded = Guarded(["END", "ND!"])
    assert [guarded.add(part) for part in ("an E", "N", "d E", "ND")] == ["an ", "", "ENd ", ""]
    assert guarded.end("", stopped=True) == ""
    assert guarded.cut
    assert Guarded(["END"], keep=True).end("the END of it", stopped=True) == "the END"
    rest = Guarded(["END"])
    assert rest.add("the EN") == "the "
    assert (rest.end("", stopped=False), rest.cut) == ("EN", False)


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.lists(st.integers(1, 5)))
def test_a_stop_string_is_never_sent(text: str, stops: list[str], sizes: list[int]) -> None:
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    read = text[: min(ends)] if ends else text  # the engine stops at the first one that is complete
    at = min((read.find(stop) for stop in stops if stop in read), default=len(read))
    guarded, parts = Guarded(stops), cut([*map(ord, read)], sizes)
    sent = [guarded.add("".join(map(chr, part))) for part in parts[:-1]]
    assert "".join([*sent, guarded.end("".join(map(chr, parts[-1])), stopped=bool(ends))]) == read[:at]
