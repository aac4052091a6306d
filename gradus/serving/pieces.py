"""Turns each token into text at once. The text has only whole characters, and no part of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

DecodeText = Callable[[np.ndarray], str]
HALF = "\ufffd"  # if a text ends with this character, the next token may have the other bytes of a character


class Decoded:
    """The text of a growing sequence of tokens. The new texts of all calls together are the text of all tokens.

    The text of new tokens is the difference of two texts: one with the new tokens and one without them. Both texts begin a few tokens earlier, because a
    token's text may depend on its neighbours (a space before a word, a character in several tokens). There is one exception. If the vocabulary has tokens for
    single bytes, the text of all tokens shows an invalid sequence of bytes only as replacement characters. In this case, bytes that were already sent as
    characters remain characters.
    """

    def __init__(self, decode: DecodeText) -> None:
        self.decode = decode
        self.tokens: list[int] = []
        self.start = self.read = 0  # the compared tokens begin at `start`; the text up to `read` was already returned

    def add(self, tokens: Sequence[int]) -> str:
        """Returns the new text that these tokens complete."""
        self.tokens += tokens
        new = self._new()
        if not new or new.endswith(HALF):
            return ""
        self.start, self.read = self.read, len(self.tokens)
        return new

    def end(self) -> str:
        """Returns the rest of the text, including incomplete characters."""
        new = self._new()
        self.start = self.read = len(self.tokens)
        return new

    def peek(self, token: int) -> str:
        """Returns the text that one more token would add."""
        before = self.tokens[self.start :]
        return self._text([*before, token])[len(self._text(before)) :]

    def _new(self) -> str:
        return self._text(self.tokens[self.start :])[len(self._text(self.tokens[self.start : self.read])) :]

    def _text(self, tokens: Sequence[int]) -> str:
        return self.decode(np.array(tokens, np.int32)) if tokens else ""


class Guarded:
    """Returns the text that may be sent. If the end of the text may become a stop string, this end is held back. A stop string ends the text. The stop string
    itself is sent only with `keep`.
    """

    def __init__(self, stops: Sequence[str], keep: bool = False) -> None:
        self.stops, self.keep = stops, keep
        self.held = ""
        self.cut = False  # whether a stop string was taken off

    def add(self, text: str) -> str:
        """Returns the text that can no longer be the start of a stop string."""
        self.held += text
        sent = len(self.held) - max((_overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[:sent], self.held[sent:]
        return out

    def end(self, text: str, stopped: bool) -> str:
        """Returns the last text. If a stop string ended the sequence (`stopped`), the text is cut at the first stop string."""
        self.held += text
        found = [(at, at + len(stop)) for stop in self.stops if (at := self.held.find(stop)) >= 0] if stopped else []
        cut = len(self.held) if not found else min(end for _, end in found) if self.keep else min(at for at, _ in found)
        self.cut = cut < len(self.held)
        out, self.held = self.held[:cut], ""
        return out


def _overlap(text: str, stop: str) -> int:
    """Returns the length of the longest end of `text` that is a start of `stop`.

    If `text` contains all of `stop`, returns the length from the start of `stop` to the end of `text`.
    """
    whole = text.find(stop)
    if whole >= 0:
        return len(text) - whole
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-n:])), 0)
