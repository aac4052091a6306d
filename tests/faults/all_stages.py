"""A recipe with every kind of stage, on a scale of seconds: rows that are made and read, a merge, a screening, weights that are handed over."""

from __future__ import annotations

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.core import Recipe
from gradus.schedules.harvests import PassRates, RightAnswers
from gradus.schedules.stages import Merge, Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.study.screen import Screened
from gradus.types import Frozen
from gradus.types.moments import Plateau, Steps

all_stages = Recipe(
    "all_stages",
    about="Every kind of stage.",
    study=HeldOut(),
    schedule=Stages(
        Frozen(
            warm=Stage(sft, Steps(3)),
            rl=Stage(grpo, Steps(3), makes=RightAnswers()),
            again=Stage(sft, Steps(2), start="first", task="made:rl"),
            soup=Merge(Frozen(rl=0.75, again=0.25)),
            hard=Stage(
                grpo,
                Plateau("held_out/accuracy", gain=2.0, evaluations=1, most=6),
                players=Frozen(reference="warm.policy"),
                screen=Screened(0.0, 1.0, samples=2, problems=6),
                makes=PassRates(0.0, 1.0),
            ),
        )
    ),
)
