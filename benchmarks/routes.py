"""A task for start models of a router: questions whose demonstrations ask one expert that knows the topic, a cheap or a dear one, and answer."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gradus.papers.agents.router_r1 import router_r1
from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.search_qa import search_qa
from gradus.tools.experts import POOL
from gradus.types import Frozen
from gradus.types.parts import Task


def routes(people: int = 800) -> Task:
    """Makes the task search_qa of one hop with the experts of `router_r1`. In half of the demonstrations, the most expensive expert is asked."""
    task = search_qa(1, people=people, instruction=False)
    plain = task.source
    assert isinstance(plain, Generated)
    dearest = max(POOL, key=lambda one: one.price)

    def make(rng: Random, at: int) -> Draft:
        draft = plain.make(rng, at)
        query, passage = draft.meta["queries"][0][0], draft.meta["evidence"][0]
        cheap = next(one for one in POOL if query.split()[0] in one.topics)
        name = (dearest if rng.random() < 0.5 else cheap).name
        pairs = [("", f"route: {name}: {query}"), (passage, f"answer: {draft.answer}")]
        return replace(draft, solution="\n".join(said for _, said in pairs), meta=Frozen({**draft.meta, "demonstration": pairs}))

    source = replace(plain, make=make)
    return replace(task, source=source, held_out=replace(source, held_out=True), environment=router_r1.environment)
