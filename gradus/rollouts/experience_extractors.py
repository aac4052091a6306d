"""Extractors edit an experience library after each batch. One extractor compares the answers of winners and losers. The other one asks a language model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rollouts.experience_library import Add, Delete, Edit, Modify, Replay, numbered, winners_and_losers
from gradus.types import Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import World


@dataclass(frozen=True)
class Contrast:
    """Adds the features that are in the answers of all winners of a group and in no answer of a loser. Deletes a text if a replay of the batch gets higher
    rewards without this text. Tries the texts one after the other, old texts first.
    """

    pattern: str = r"[A-Za-z]{2,}|[^\w\s]"  # regex for the features of an answer: words, and signs such as operations
    form: str = "use {}"  # the text of a feature; {} is the match
    tries: int = 4  # number of new texts that are tried per batch; if a text is found in more groups, it is tried earlier

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise UserError(f'contrast: pattern "{self.pattern}" is not a regular expression: {error}; correct the pattern') from None
        if "{}" not in self.form:
            raise UserError(f'contrast: `form` is "{self.form}"; it must contain {{}} at the place of the feature')
        if self.tries < 0:
            raise UserError(f"contrast: `tries` is {self.tries}; it must be 0 or more")

    async def edits(self, groups: Sequence[Group], library: Sequence[str], replay: Replay, world: World) -> list[Edit]:
        found = Counter(self.form.replace("{}", feature) for group in groups for feature in telling(group, self.pattern))
        new = sorted((text for text in found if text not in library), key=lambda text: (-found[text], text))[: self.tries]
        if not library and not new:
            return []
        kept, edits = list(library), list[Edit]()
        best = await replay(kept)
        for i, text in enumerate(library):
            without = [other for other in kept if other != text]
            if (earned := await replay(without)) > best:
                kept, best = without, earned
                edits.append(Delete(i))
        for text in new:
            if (earned := await replay([*kept, text])) >= best:
                kept, best = [*kept, text], earned
                edits.append(Add(text))
        return edits


def telling(group: Group, pattern: str) -> list[str]:
    """Returns the sorted features that are in the answers of all winners, and in no answer of a loser."""
    won, lost = ([set(re.findall(pattern, t.completion)) for t in side] for side in winners_and_losers(group))
    return sorted(set.intersection(*won).difference(*lost))


@dataclass(frozen=True)
class Written:
    """A player summarises every answer of the groups, then writes for each group why the winners won, and then writes edits from these reasons."""

    player: str = "policy"
    max_tokens: int = 512  # largest number of tokens per answer of the player
    words: int = 32  # largest number of words per text, as requested in its prompt

    async def edits(self, groups: Sequence[Group], library: Sequence[str], replay: Replay, world: World) -> list[Edit]:
        answers = [(group, t) for group in groups for t in group.trajectories]
        told = iter(await self._ask(world, [(t.problem, ("summary", t.id), summary_prompt(t)) for _, t in answers]))
        asked = []
        for group in groups:
            summaries = [f"reward {t.value:g}: {next(told)}" for t in group.trajectories]
            problem = group.trajectories[0].problem
            asked.append((problem, ("reason", group.key), reason_prompt(problem, summaries, library)))
        reasons = await self._ask(world, asked)
        problem = groups[0].trajectories[0].problem
        (text,) = await self._ask(world, [(problem, ("edits",), edits_prompt(reasons, library, self.words))])
        return parsed(text, len(library))

    async def _ask(self, world: World, prompts: Sequence[tuple[Problem, tuple[str, ...], str]]) -> list[str]:
        """Returns the player's answers, which are sampled together; no update uses them."""
        sampling = replace(world.sampling, max_tokens=self.max_tokens, stops=())
        requests = [
            Request(problem, 1, self.player, ({"role": "user", "content": text},), None, sampling, ("library", *tags), trained=False)
            for problem, tags, text in prompts
        ]
        return [world.text(context.tokens[context.chosen], self.player).strip() for (context,) in await world.sample(requests)]
    names_players: ClassVar[tuple[str, ...]] = ("player",)


def summary_prompt(trajectory: Trajectory) -> str:
    truth = "" if trajectory.problem.answer is None else f"\nRight answer: {trajectory.problem.answer}"
    return (
        f"Problem:\n{trajectory.problem.question}{truth}\n\nAn attempt, which earned the reward {trajectory.value:g}:\n"
        f"{trajectory.completion}\n\nTell the attempt step by step in a few short lines: its actions, the given experiences that it "
        "used, and its first mistake if it made one."
    )


def reason_prompt(problem: Problem, summaries: Sequence[str], library: Sequence[str]) -> str:
    attempts = "\n\n".join(f"Attempt {i + 1}, {summary}" for i, summary in enumerate(summaries))
    return (
        f"Problem:\n{problem.question}\n\n{attempts}\n\nExperiences so far:\n{numbered(library) or 'none'}\n\n"
        "Say in one sentence why the attempts with a high reward did better than those with a low one."
    )


def edits_prompt(reasons: Sequence[str], library: Sequence[str], words: int) -> str:
    return (
        f"Experiences so far:\n{numbered(library) or 'none'}\n\nResults of the last attempts at several problems:\n"
        + "\n".join(f"- {reason}" for reason in reasons)
        + "\n\nImprove the list of experiences, so that it helps with problems of this kind in general. Answer with one change per line, each "
        f"text at most {words} words:\nAdd: TEXT\nModify NUMBER: TEXT\nDelete NUMBER\nKeep"
    )


_LINE = re.compile(r"[\W\d]*(?:(add)\W*?:|(modify)\W*([0-9]{1,9})\W*?:|(delete)\W*([0-9]{1,9})(?![0-9]))\s*(.*)", re.IGNORECASE)


def parsed(text: str, count: int) -> list[Edit]:
    """Reads the edits in the lines of an answer, for a library of `count` texts. Other lines and unknown numbers are ignored."""
    edits: list[Edit] = []
    for found in filter(None, map(_LINE.fullmatch, text.splitlines())):
        add, modify, changed, delete, removed, body = found.groups()
        if add and body:
            edits.append(Add(body))
        elif modify and body and int(changed) < count:
            edits.append(Modify(int(changed), body))
        elif delete and int(removed) < count:
            edits.append(Delete(int(removed)))
    return edits
