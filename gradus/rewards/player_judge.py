"""A judge that is a player: a language model of the run reads the case and writes a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.rewards.verdicts import Case, Form, Verdict, YesNo, mean_verdict
from gradus.types import Failed, FailureKind, Message, Request, Sampling, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

TOO_LONG = Failed("the judge's prompt fills its context; use a judge with a longer context", FailureKind.INVALID)


@dataclass(frozen=True)
class PlayerJudge:
    """A judge: `player` writes `samples` texts for a case, and the verdict is the mean of the verdicts in these texts.

    If the player has no objective, it is never trained.
    """

    player: str = "judge"
    samples: int = 1
    temperature: float = 0.0
    max_tokens: int = 256
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, samples="[1, inf)", temperature="[0, inf)", max_tokens="[1, inf)")

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        """Asks about all cases in one batch. A case whose prompt fills the player's context fails."""
        prompts = [prompt_of(form, case) for case in cases]
        fits = [len(world.opening(p, self.player).sequence) + 1 < world.context_length(self.player) for p in prompts]
        asked = [(form, case, prompt) for case, prompt, fit in zip(cases, prompts, fits, strict=True) if fit]
        found = iter(await self._written(asked, world))
        return [next(found) if fit else TOO_LONG for fit in fits]

    async def _written(self, asked: Sequence[tuple[Form, Case, Any]], world: World) -> list[Verdict | None]:
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        requests = [
            Request(case.problem, self.samples, self.player, prompt, sampling=sampling, tags=("verdict", case.id), trained=False)
            for _, case, prompt in asked
        ]
        texts = [[world.text(c.tokens[c.chosen], self.player) for c in row] for row in await world.sample(requests)]
        return [mean_verdict([form.read(t, case) for t in row]) for (form, case, _), row in zip(asked, texts, strict=True)]


def prompt_of(form: Form, case: Case) -> str | tuple[Message, ...]:
    """Returns the prompt, which is raw text if the problem's prompt is raw text, else one message."""
    text = form.prompt(case)
    return text if case.problem.text is not None else ({"role": "user", "content": text},)


def both_words(form: Form) -> tuple[str, str]:
    """Returns the two words of a soft verdict. Raises UserError if the form has no such words."""
    if not isinstance(form, YesNo):
        raise UserError(
            f"a soft verdict needs the probabilities of two words, but {type(form).__name__} has none; use the form YesNo, or a judge that writes its verdict"
        )
    return form.yes, form.no
