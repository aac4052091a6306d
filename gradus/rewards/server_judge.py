"""A judge at an address: a server with OpenAI's chat interface. The judge stores the replies, so a resumed run sends no request twice."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradus.rewards.player_judge import both_words
from gradus.rewards.verdicts import Case, Form, Verdict, mean_verdict, soft_verdict
from gradus.runtime.cache import cache_folder
from gradus.types import Failed, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges
from gradus.workers.chat_client import Calls, ChatClient, Reply, checked, client_of, replies
from gradus.workers.reply_store import ReplyStore, hash_of, store_at

LIKELY = 20  # for a soft verdict, the server returns the probabilities of this number of likely tokens at each position


@dataclass(frozen=True)
class ServerJudge:
    """A judge: the server at `url` writes `samples` texts for a case, and the verdict is the mean of the verdicts in these texts.

    Each request is stored by its hash, with the reply. A request that has a stored reply is not sent. After a fault of the server or the network, the judge
    tries again. If the last attempt fails too, the case fails, and no update uses its answer. If the server refuses every request (wrong key, address or
    model), the run stops. The key is read from the environment variable `key_env`, and never stored or logged. With `soft`, the verdict is computed
    from the probabilities of the two words of `YesNo` (see `soft_verdict`). The server must then offer `logprobs`. The tokens of all prompts and replies
    count as `tokens/judge`, even if a reply was stored. Metrics: `judge/failed`, `judge/tokens` (tokens per case).
    """

    url: str
    model: str | None = None  # None: the only model of the server
    samples: int = 1
    temperature: float = 0.0
    max_tokens: int = 256
    soft: bool = False
    together: int = 32  # calls at a time
    timeout: float = 60.0  # seconds of one attempt
    retries: int = 5  # further attempts after a fault
    key_env: str = "GRADUS_JUDGE_KEY"
    store: str | None = None  # file of the stored replies; None: judge/replies.sqlite in the cache folder

    def __post_init__(self) -> None:
        check_ranges(self, samples="[1, inf)", temperature="[0, inf)", max_tokens="[1, inf)", together="[1, inf)", timeout="(0, inf)", retries="[0, inf)")
        checked(self.url, None)
        if self.samples > 1 and self.temperature == 0:
            raise UserError(f"ServerJudge.samples is {self.samples}, but at temperature 0 all texts are equal; set a temperature above 0, or set `samples` to 1")

    def check_form(self, form: Form, task: Task) -> None:
        """Asks the server for its models. Raises UserError if the server does not answer, or if the name of the model is missing."""
        if self.soft:
            both_words(form)
        self._client().start(self._model(self._client())).result()

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        client, store, call = self._client(), self._store(), world.call("judge")
        model = await asyncio.wrap_future(client.start(self._model(client)))
        asked = [[self.request(model, form, case, i) for i in range(self.samples)] for case in cases]
        names = [[hash_of({"url": client.url, **body, "sample": i}) for i, body in enumerate(row)] for row in asked]
        wanted = {name: body for row, bodies in zip(names, asked, strict=True) for name, body in zip(row, bodies, strict=True)}
        found: dict[str, Reply | Failed] = dict(await asyncio.to_thread(store.find, list(wanted)))
        known = {name: world.fact(f"{call}/{name}") for name in wanted if name not in found}
        found |= {name: Failed.read(told) for name, told in known.items() if told is not None}  # the step is repeated
        missing = [(name, body) for name, body in wanted.items() if name not in found]
        with world.waiting(f"the judge at {client.url}", f"{len(missing)} calls"):
            new = await asyncio.wrap_future(client.start(replies(client, missing, store.add))) if missing else {}
        for name, reply in new.items():
            if isinstance(reply, Failed):
                world.decide(f"{call}/{name}", reply.told)
        found |= new
        return [self._verdict([found[name] for name in row], form, case, world) for row, case in zip(names, cases, strict=True)]

    def request(self, model: str, form: Form, case: Case, sample: int) -> dict[str, Any]:
        """Returns the body of a request."""
        body: dict[str, Any] = {
            "model": model, "messages": [{"role": "user", "content": form.prompt(case)}], "max_tokens": self.max_tokens, "temperature": self.temperature,
        }  # fmt: skip
        if self.soft:
            body |= {"logprobs": True, "top_logprobs": LIKELY}
        return body if sample == 0 else {**body, "seed": sample}

    def _verdict(self, found: Sequence[Reply | Failed], form: Form, case: Case, world: World) -> Verdict | Failed | None:
        failed = next((reply for reply in found if isinstance(reply, Failed)), None)
        whole = [reply for reply in found if isinstance(reply, Reply)]
        spent = sum(reply.prompt_tokens + reply.reply_tokens for reply in whole)
        world.count("judge", "policy", spent)
        world.note("judge/tokens", spent)
        world.note("judge/failed", failed is not None)
        if failed is not None:
            return failed
        return mean_verdict([soft_of(r, form) if self.soft else form.read(r.text, case) for r in whole])

    async def _model(self, client: ChatClient) -> str:
        if self.model is not None:
            return self.model
        if client.model is None:
            listed = await client.models()
            if listed is None or len(listed) != 1:
                names = f"has the models {', '.join(listed[:5])}" if listed else "has no list of models"
                raise UserError(f"the judge at {client.url} {names}; name one model with --reward.judge.model NAME")
            client.model = listed[0]
        return client.model

    def _client(self) -> ChatClient:
        return client_of(self.url, os.environ.get(self.key_env) or None, Calls(self.together, self.timeout, self.retries))

    def _store(self) -> ReplyStore:
        return store_at(Path(self.store) if self.store is not None else cache_folder("judge") / "replies.sqlite")


def soft_of(reply: Reply, form: Form) -> Verdict | None:
    """Returns the soft verdict at the last token that is one of the two words; None if there is no such token. A word that is not listed has probability 0."""
    yes, no = (word.lower() for word in both_words(form))
    for row in reversed(reply.likely):
        chances = summed(row)
        if max(chances, key=chances.__getitem__) in (yes, no):
            return (soft_verdict(chances.get(yes, 0.0), chances.get(no, 0.0)),)
    return None


def summed(row: Mapping[str, float]) -> dict[str, float]:
    """Returns the probability of each word at one position. Tokens that differ only in case and spaces are one word."""
    out: dict[str, float] = {}
    for token, logprob in row.items():
        word = token.strip().lower()
        out[word] = out.get(word, 0.0) + math.exp(min(logprob, 0.0))
    return out
