"""The text of an answer, and the log-probabilities of its tokens. The tokens have names that a client can compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradus.policies.jobs import Likely
from gradus.serving.pieces import HALF, Decoded, Guarded
from gradus.types import Ended

LEAST = -9999.0  # this number replaces minus infinity, which JSON does not have


@dataclass(frozen=True)
class Named:
    """A token, its log-probability (None for the first token of a prompt), and the bytes of its text if these are whole characters."""

    name: str
    logprob: float | None
    bytes: list[int] | None


@dataclass(frozen=True)
class Entry:
    """A token of an answer, with the offset of its text in the whole text, and the most likely tokens at its position."""

    start: int
    token: Named
    likely: list[Named] | None


class Names:
    """The names of a model's tokens. The name of a token is the text that it adds to the tokens before it.

    Two kinds of tokens get their names from the vocabulary: special tokens, and tokens with only some of the bytes of a character.
    """

    def __init__(self, model: Any) -> None:
        self.decode, self.raw = model.text, model.tokenizer.name

    def entry(self, decoded: Decoded, start: int, token: int, logprob: float | None, likely: Likely | None) -> Entry:
        """Returns the entry of `token`, which follows the tokens of `decoded`. Two tokens at one position never have the same name."""
        taken: set[str] = set()
        made: dict[int, Named] = {}
        values = dict(zip(*likely, strict=True)) if likely else {}
        for one in dict.fromkeys([*values, token]):
            name = decoded.peek(one)
            whole = bool(name) and HALF not in name
            name = name if whole else self.raw(one) or ""
            if not name or name in taken:
                name, whole = f"token_id:{one}", False
            taken.add(name)
            value = values.get(one, logprob)
            made[one] = Named(name, None if value is None else max(float(value), LEAST), list(name.encode()) if whole else None)
        own = made[token]
        own = Named(own.name, None if logprob is None else max(float(logprob), LEAST), own.bytes)
        return Entry(start, own, [made[one] for one in values] if likely else None)


class Written:
    """The part of an answer that may be sent.

    This part has whole characters, no stop string, and the entries of tokens whose text was sent.
    """

    def __init__(self, names: Names, stops: Sequence[str], keep_stop: bool, with_entries: bool) -> None:
        self.names, self.with_entries = names, with_entries
        self.decoded, self.guarded = Decoded(names.decode), Guarded(stops, keep_stop)
        self.entries: list[Entry] = []  # not sent yet
        self.text = self.sent = 0  # number of characters so far, and number of sent characters

    def more(
        self, tokens: Sequence[int], logprobs: Sequence[float], likely: Sequence[Likely], ended: Ended | None
    ) -> tuple[str, list[Entry]]:
        """Returns the new text and the new entries after more tokens. `ended`: if these are the last tokens, the reason of the end; else None."""
        text = self._with_entries(tokens, logprobs, likely) if self.with_entries else self.decoded.add(tokens)
        if ended is None:
            out = self.guarded.add(text)
        else:
            out = self.guarded.end(text + self.decoded.end(), ended is Ended.STOP)
        self.sent += len(out)
        cut = ended is Ended.STOP and self.guarded.cut
        ready = [e for e in self.entries if e.start < self.sent or (ended is not None and not cut)]
        self.entries = self.entries[len(ready) :]
        return out, ready

    def _with_entries(self, tokens: Sequence[int], logprobs: Sequence[float], likely: Sequence[Likely]) -> str:
        text = ""
        for i, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True)):
            self.entries.append(self.names.entry(self.decoded, self.text, token, logprob, likely[i] if likely else None))
            new = self.decoded.add([token])
            text += new
            self.text += len(new)
        return text
