"""The checks of a recipe with stages."""

from __future__ import annotations

from gradus.api import plan
from gradus.checks.before import check
from gradus.checks.in_stages import first_stage
from gradus.papers.bases.sft import sft
from gradus.recipe.core import Recipe
from gradus.schedules.stages import Merge, Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.moments import Steps


def test_every_stage_is_checked_once_and_the_first_with_its_model() -> None:
    found = []
    planned = plan("sft:5,grpo:5,sft:5")
    alone = first_stage(planned, found)
    assert alone is not None
    assert (alone.recipe.key, alone.recipe.setting.steps) == ("sft", 5)
    assert found[0].says.startswith("in order: sft (sft, at most 5 steps), grpo (grpo, at most 5 steps), sft_3")
    assert [finding.says.split(":")[0] for finding in found[1:] if finding.verdict == "ok"] == ["stage sft", "stage grpo"]
    assert [f.verdict for f in check(lambda: planned, samples=0) if f.check in ("fit", "stages", "recipe")] == ["ok"] * 3


def test_stages_that_do_not_fit_together_are_found() -> None:
    wrong = Recipe("wrong", schedule=Stages(Frozen(a=Stage(sft, Steps(1)), b=Merge(Frozen(a=0.5, c=0.5)))), study=HeldOut())
    found = []
    assert first_stage(plan(wrong), found) is None
    assert [(f.check, f.verdict) for f in found] == [("stages", "wrong")]
    assert 'unknown stage "c"' in found[0].says
