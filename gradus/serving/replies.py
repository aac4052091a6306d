"""Answers in the forms of OpenAI's protocol: as a whole, or as the events of a stream."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from gradus import __version__
from gradus.policies.jobs import Likely
from gradus.policies.scoring import Scored
from gradus.serving.asked import Asked
from gradus.serving.entries import Entry, Named, Names, Written
from gradus.serving.errors import Refused
from gradus.serving.pieces import Decoded
from gradus.serving.runner import Answer
from gradus.types import Ended

DONE = b"data: [DONE]\n\n"
FINISHED = {Ended.STOP: "stop", Ended.LENGTH: "length", Ended.CONTEXT: "length"}


class Choice:
    """One answer to a request (or only the prompt), and the part of the answer that was already sent."""

    def __init__(self, index: int, answer: Answer | None, names: Names, asked: Asked, prompt: tuple[str, list[Entry]]) -> None:
        self.index, self.answer, self.asked = index, answer, asked
        stops = answer.job.sampling.stops if answer is not None else ()
        self.written = Written(names, stops, asked.keep_stop, asked.logprobs is not None)
        self.text, self.entries = prompt  # these are sent first
        self.offset, self.read = len(self.text), 0

    def more(self) -> tuple[str, list[Entry], str | None]:
        """Returns the new text, the new entries, and the reason of the end (None if the answer continues)."""
        text, entries, finished = self.text, self.entries, None if self.answer is not None else "length"
        self.text, self.entries = "", []
        if (a := self.answer) is not None:
            ended, new = a.ended, slice(self.read, len(a.tokens))  # the order of these two matters, because the engine's thread appends at the same time
            self.read = new.stop
            more, made = self.written.more(a.tokens[new], a.logprobs[new], a.likely[new], ended)
            moved = [Entry(e.start + self.offset, e.token, e.likely) for e in made]
            text, entries = text + more, [*entries, *moved]
            finished = FINISHED[ended] if ended is not None else None
        return text, entries, finished


class Replies:
    """The answers to one request as JSON. `scored`: the log-probabilities of the prompts, if the request asks for them."""

    def __init__(self, asked: Asked, answers: Sequence[Answer], model: Any, name: str, scored: Sequence[Scored] = ()) -> None:
        self.asked, self.answers = asked, answers
        names = Names(model)
        prompts = [
            _echo(names, prompt, scored[i] if scored else None) if asked.echo else ("", []) for i, prompt in enumerate(asked.prompts)
        ]
        count = len(asked.prompts) * asked.choices
        self.choices = [
            Choice(i, answers[i] if answers else None, names, asked, (prompts[i // asked.choices][0], [*prompts[i // asked.choices][1]]))
            for i in range(count)
        ]
        self.open = list(self.choices)
        kind = "chat.completion" if asked.chat else "text_completion"
        self.head = {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": f"{kind}.chunk" if asked.chat and asked.stream else kind,
            "created": int(time.time()),
            "model": name,
            "system_fingerprint": f"gradus-{__version__}",
        }

    def whole(self) -> dict[str, Any]:
        """Returns the reply to a request without a stream, after all its answers have ended."""
        choices = []
        for choice in self.choices:
            text, entries, finished = choice.more()
            body = {"message": {"role": "assistant", "content": text, "refusal": None}} if self.asked.chat else {"text": text}
            choices.append({"index": choice.index, **body, "logprobs": self._logprobs(entries), "finish_reason": finished})
        return {**self.head, "choices": choices, "usage": self.usage}

    def opening(self) -> bytes:
        """Returns the first events of a stream."""
        if not self.asked.chat:
            return b""
        delta = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return b"".join(self._event([{"index": choice.index, **delta}]) for choice in self.choices)

    def news(self) -> bytes:
        """Returns the events since the last call: for each answer one event for new text, and one for the end."""
        out = []
        for choice in self.open:
            text, entries, finished = choice.more()
            if text or entries:
                body = {"delta": {"content": text}} if self.asked.chat else {"text": text}
                out.append(self._event([{"index": choice.index, **body, "logprobs": self._logprobs(entries), "finish_reason": None}]))
            if finished:
                last: dict[str, Any] = {"delta": {}} if self.asked.chat else {"text": ""}
                out.append(self._event([{"index": choice.index, **last, "logprobs": None, "finish_reason": finished}]))
        self.open = [c for c in self.open if c.answer is not None and c.answer.ended is None]
        return b"".join(out)

    def closing(self) -> bytes:
        """Returns the last events of a stream."""
        return (self._event([], usage=self.usage) if self.asked.usage else b"") + DONE

    @property
    def usage(self) -> dict[str, int]:
        prompt, new = sum(map(len, self.asked.prompts)), sum(len(a.tokens) for a in self.answers)
        return {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}

    def _event(self, choices: Sequence[dict[str, Any]], **more: Any) -> bytes:
        empty = {"usage": None} if self.asked.usage and not more else {}
        return event({**self.head, "choices": choices, **empty, **more})

    def _logprobs(self, entries: Sequence[Entry]) -> dict[str, Any] | None:
        if self.asked.logprobs is None:
            return None
        if self.asked.chat:
            return {"content": [{**_token(e.token), "top_logprobs": [_token(n) for n in e.likely or ()]} for e in entries], "refusal": None}
        return {
            "tokens": [e.token.name for e in entries],
            "token_logprobs": [e.token.logprob for e in entries],
            "top_logprobs": [_top(e) for e in entries] if self.asked.logprobs else None,
            "text_offset": [e.start for e in entries],
        }


def event(content: dict[str, Any]) -> bytes:
    """Returns a server-sent event."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def failed(error: Refused) -> bytes:
    """Returns the last event of a stream that ends with an error."""
    return event(error.body)


def _token(named: Named) -> dict[str, Any]:
    return {"token": named.name, "logprob": named.logprob, "bytes": named.bytes}


def _top(entry: Entry) -> dict[str, float | None] | None:
    """Returns the log-probabilities of the most likely tokens and of the token itself, by name; None for the first token of a prompt."""
    if entry.likely is None:
        return None
    return {named.name: named.logprob for named in (*entry.likely, entry.token)}


def _echo(names: Names, prompt: np.ndarray, scored: Scored | None) -> tuple[str, list[Entry]]:
    """Returns a prompt's text, and the entries of its tokens if the prompt was scored."""
    decoded, entries, text = Decoded(names.decode), [], ""
    if scored is None:
        return decoded.add(prompt.tolist()) + decoded.end(), []
    likely: list[Likely | None] = [None, *(scored.likely or repeat(None, len(scored.logprobs)))]
    for token, logprob, top in zip(prompt.tolist(), [None, *scored.logprobs.tolist()], likely, strict=True):
        entries.append(names.entry(decoded, len(text), token, logprob, top))
        text += decoded.add([token])
    return text + decoded.end(), entries
