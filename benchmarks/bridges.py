"""A task for start models of a searcher: two-hop questions whose demonstrations select documents, search for the bridge, and stop."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from random import Random

from gradus.environments.selecting import MOST, Selecting, Selection
from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.search_qa import search_qa
from gradus.types import Frozen
from gradus.types.parts import Task


def bridges(level: int = 2, people: int = 800, lazy: float = 0.5, top: int = 8, most: int = 400) -> Task:
    """Makes the task search_qa in the environment `Selecting`. With probability `lazy`, a demonstration stops after the first block.

    A demonstration of more than `most` characters also stops after the first block, because the built-in models read 512 characters.
    """
    task = search_qa(level, people=people, instruction=False)
    plain, settings = task.source, Selecting(top=top)
    assert isinstance(plain, Generated)
    assert task.passages is not None
    passages = tuple(task.passages())

    def make(rng: Random, at: int) -> Draft:
        draft = plain.make(rng, at)
        pairs = demonstrated(draft, rng.random() < lazy)
        if sum(map(len, chain(*pairs))) > most:
            pairs = demonstrated(draft, True)
        return replace(draft, solution="\n".join(said for _, said in pairs), meta=Frozen({**draft.meta, "demonstration": pairs}))

    def demonstrated(draft: Draft, stops: bool) -> list[tuple[str, str]]:
        gold, stop = set(draft.meta["evidence"]), "<search_complete>true</search_complete>"
        episode = Selection(passages, str(draft.meta["question"]), settings)
        shown, pairs = str(episode.first.observation), list[tuple[str, str]]()
        queries = [] if stops else [both[0] for text, both in zip(draft.meta["evidence"], draft.meta["queries"], strict=True) if text not in shown]
        for query in (*queries, None):
            ids = [n for n, line in enumerate(shown.split("\n"), 1) if line.partition("] ")[2] in gold][:MOST]
            said = f"<important_info>{ids}</important_info>" + (stop if query is None else f"<query>{query}</query>")
            pairs.append((shown, said))
            shown = str(episode.play(said).observation)
        return pairs

    source = replace(plain, make=make)
    return replace(task, source=source, held_out=replace(source, held_out=True), environment=settings)
