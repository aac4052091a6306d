"""A run through its stages: what each one begins with, when it ends, what it leaves, and that nothing depends on where it is stored."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import gradus
from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.players.merge import fused
from gradus.recipe.core import Recipe
from gradus.recipe.registry import recipe as of_name
from gradus.schedules.harvests import RightAnswers
from gradus.schedules.stages import Fuse, Merge, Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.training import stages
from gradus.types import Frozen, Key, UserError
from gradus.types.moments import Level, Plateau, Steps
from tests.faults.all_stages import all_stages

SMALL: dict[str, Any] = {
    "setting__prompts": 2, "setting__group": 4, "setting__eval_every": 3, "setting__save_every": 2, "setting__learning_rate": 1e-3,
    "study__problems": 2,
}  # fmt: skip
SCRIPTED = {name: value for name, value in SMALL.items() if name != "study__problems"}
QUICK = ["--prompts", "2", "--group", "2", "--study.problems", "2", "--eval_every", "0", "--save_every", "1", "--max_tokens", "8"]


def several(study: Any = HeldOut(greedy=False), repeat: int = 1, **each: Any) -> Recipe:
    """A recipe of stages, evaluated by a study."""
    return Recipe("several", schedule=Stages(Frozen(each), repeat), study=study)


@dataclass(frozen=True)
class Scripted:
    """A study whose accuracy at every step of the run is written down; none at the steps that are not."""

    scores: Frozen[float]
    reward: None = None

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        return {"held_out/accuracy": self.scores.get(str(run.step))}


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """By leg: the weights of its players, the moments of its policy's optimiser and the updates at its start."""
    seen: dict[str, Any] = {}
    real = stages.enter

    def watched(run: Any, course: Any, index: int) -> None:
        real(run, course, index)
        weights = {name: {n: t.clone() for n, t in p.policy.network.state_dict().items()} for name, p in run.players.items()}
        policy = run.players["policy"]
        moments = len(policy.optimizer.state) if policy.learns else 0
        seen[course.leg.name] = {**weights, "moments": moments, "updates": policy.updates, "memory": copy.deepcopy(run.memory.states)}

    monkeypatch.setattr(stages, "enter", watched)
    return seen


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in {**one, **other})


def ended(run: Any, leg: str) -> dict[str, torch.Tensor]:
    """The weights of the policy at the end of a leg."""
    found = stages.end_of(run, run.stages, leg).tensors("player-policy.safetensors")
    return {name.removeprefix("weights."): t for name, t in found.items() if name.startswith("weights.")}


def test_one_stage_is_the_recipe_itself() -> None:
    plain = gradus.train(grpo, steps=3, **SMALL)
    one = gradus.train(grpo.derive("one", "One stage.", schedule=Stages(Frozen(only=Stage(until=Steps(3))))), **SMALL)
    assert [{k: v for k, v in row.items() if k != "stage"} for row in one.metrics] == plain.metrics
    assert {row["stage"] for row in one.metrics} == {"only"}
    assert same(one.players["policy"].policy.network.state_dict(), plain.players["policy"].policy.network.state_dict())
    assert "stages" not in json.dumps(plain.documents()[0])  # the state of a run without stages is as it was


def test_a_run_in_memory_is_that_of_a_folder(tmp_path: Path, entered: dict[str, Any]) -> None:
    stored = gradus.train(all_stages, run=tmp_path / "run", **SMALL)
    begun = dict(entered)
    run = gradus.train(all_stages, **SMALL)
    assert run.metrics == stored.metrics
    assert same(run.players["policy"].policy.network.state_dict(), stored.players["policy"].policy.network.state_dict())
    names = [row["stage"] for row in run.metrics if "ended" not in row]
    assert names == ["warm"] * 3 + ["rl"] * 3 + ["again"] * 2 + ["soup"] + ["hard"] * 4  # the last row is the evaluation at the end
    assert [row["step"] for row in run.metrics if "ended" in row] == [3, 6, 8, 9]
    for kind in ("made", "screened"):
        for path in (tmp_path / "run" / kind).iterdir():
            assert path.read_bytes() == (run.stages.home(run) / kind / path.name).read_bytes()
    # hand-over: the policy of the stage before; the model of the run; a reference of another stage, and else a copy of the start
    assert same(begun["rl"]["policy"], ended(run, "warm"))
    assert same(begun["rl"]["reference"], ended(run, "warm"))
    assert not same(begun["again"]["policy"], ended(run, "rl"))
    assert same(begun["hard"]["policy"], ended(run, "soup"))
    assert same(begun["hard"]["reference"], ended(run, "warm"))
    assert all((begun[leg]["moments"], begun[leg]["updates"]) == (0, 0) for leg in begun)  # optimisers begin anew
    # the merge: 0.75 rl + 0.25 again in float64, rounded once
    rl, again, soup = (ended(run, leg) for leg in ("rl", "again", "soup"))
    for name, tensor in soup.items():
        assert torch.equal(tensor, (0.75 * rl[name].double() + 0.25 * again[name].double()).to(tensor.dtype)), name
    assert not same(rl, again)
    # the rows of rl: right answers as solutions; again trains on them
    rows = [json.loads(line) for line in (tmp_path / "run" / "made" / "rl.jsonl").read_text().splitlines()]
    trained = {t.problem.meta["solution"] for _, g in RunFolder.open(tmp_path / "run").rollouts([6, 7]) for t in g.trajectories}
    assert trained <= {row["solution"] for row in rows}
    facts = (tmp_path / "run" / "facts.jsonl").read_text()
    made = RunFolder.open(tmp_path / "run").provenance()["made"]["rl"]
    assert made["sha256"] in facts
    assert (made["rows"], made["step"]) == (len(rows), 6)


def test_the_first_stage_s_model_is_that_of_the_run(entered: dict[str, Any]) -> None:
    run = gradus.train(several(a=Stage(sft, Steps(2)), b=Stage(sft, Steps(1), start="first")), **SMALL)
    from gradus.api import plan, start

    assert same(entered["b"]["policy"], start(plan("sft")).players["policy"].policy.network.state_dict())
    assert not same(entered["b"]["policy"], ended(run, "a"))


def test_rounds_find_the_newest_stage_of_a_name(entered: dict[str, Any]) -> None:
    course = several(repeat=2, a=Stage(sft, Steps(1)), b=Stage(grpo, Steps(1), start="a"), c=Stage(sft, Steps(1), start="a"))
    run = gradus.train(course, **SMALL)
    assert [row["stage"] for row in run.metrics if "ended" not in row][:6] == ["a", "b", "c", "a-2", "b-2", "c-2"]
    assert same(entered["c"]["policy"], ended(run, "a"))
    assert same(entered["a-2"]["policy"], ended(run, "c"))
    assert same(entered["c-2"]["policy"], ended(run, "a-2"))


def test_a_curriculum_goes_on_where_the_source_stays(entered: dict[str, Any]) -> None:
    gradus.train(several(a=Stage(sft, Steps(2)), b=Stage(sft, Steps(1)), c=Stage(sft, Steps(1), task="countdown")), **SMALL)
    assert entered["b"]["memory"]["curriculum"]["state"] == {"drawn": 2 * 2 * 4}
    assert entered["c"]["memory"] == {}


@pytest.mark.parametrize(
    ("until", "scores", "steps"),
    [
        (Steps(2), [0.0] * 9, 2),
        (Level("held_out/accuracy", at=0.5, most=6), [0.1, 0.4, 0.5, 0.9, 0.9, 0.9, 0.9], 2),
        (Level("held_out/accuracy", at=2.0, most=4), [0.1] * 9, 4),
        # gains below 0.02 over the last two: 0.31 - 0.30 at step 3; before that 0.30 - 0.10
        (Plateau("held_out/accuracy", gain=0.02, evaluations=2, most=9), [0.1, 0.3, 0.31, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9], 3),
        (Plateau("held_out/accuracy", gain=0.0, evaluations=1, most=5), [0.1, 0.2, 0.3, 0.3, 0.2, 0.9, 0.9], 4),
        (Plateau("held_out/accuracy", gain=0.02, evaluations=2, most=2), [0.1] * 9, 2),
    ],
)
def test_a_stage_ends_where_its_evaluations_say(until: Any, scores: list[float], steps: int) -> None:
    script = Scripted(Frozen({str(n): score for n, score in enumerate(scores)}))
    run = gradus.train(several(script, a=Stage(sft, until), b=Stage(sft, Steps(1))), **{**SCRIPTED, "setting__eval_every": 1})
    assert run.stages.ended["a"] == steps
    assert [row["step"] for row in run.metrics if row["stage"] == "a"] == list(range(steps + 1))


def test_a_stage_by_a_metric_that_is_not_measured_says_so() -> None:
    script = Scripted(Frozen({"0": 0.5}))
    with pytest.raises(UserError, match=r'unknown metric "held_out/accurac" \(did you mean held_out/accuracy'):
        gradus.train(several(script, a=Stage(sft, Level("held_out/accurac", at=0.9))), **SCRIPTED)


@dataclass(frozen=True)
class Wrong:
    """A harvest that gives what it was told to."""

    gives: Any
    provides: frozenset[str] = frozenset({"solution"})

    def rows(self, groups: Any) -> Any:
        return self.gives


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        (None, "Wrong.rows .*returned None; it must return a list of rows"),
        ([1], "row 1 of stage a is 1; it must be a mapping"),
        (({"solution": "4"},), 'row 1 of stage a has neither a "problem" .* nor a "prompt"'),
        ([{"prompt": "2+2", "answer": 4}], "returned rows without solution; it must return rows with solution, as in its `provides`"),
    ],
)
def test_rows_that_are_none_are_told(gives: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        gradus.train(several(a=Stage(sft, Steps(1), makes=Wrong(gives))), **SMALL)


def test_no_right_answer_leaves_nothing_to_learn() -> None:
    course = several(a=Stage(grpo, Steps(1), makes=Wrong([])), b=Stage(sft, Steps(1), task="made:a"))
    with pytest.raises(UserError, match="contains no problem, because the screening or the stage kept no problem"):
        gradus.train(course, **SMALL)


def test_sft_then_grpo_is_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "sft:2,grpo:2", "--run", run, *QUICK]) == 0
    told = capsys.readouterr().out
    assert "stage grpo begins at step 2: grpo, at most 2 steps" in told
    assert main(["eval", run, "--problems", "2"]) == 0
    assert main(["eval", f"{run}/stages/sft", "--task", "arithmetic", "--problems", "2"]) == 0
    assert main(["export", run, str(tmp_path / "model")]) == 0
    assert main(["resume", run]) == 0
    capsys.readouterr()
    assert main(["resume", run, "--steps", "9"]) == 2
    assert "lengthen the last stage with --schedule.stages.grpo.until.count N" in capsys.readouterr().err
    assert main(["resume", run, "--schedule.stages.sft.until.count", "9"]) == 2
    assert "cannot change within a run" in capsys.readouterr().err
    assert main(["resume", run, "--schedule.stages.grpo.until.count", "3"]) == 0
    assert RunFolder.open(run).done() == 5
    capsys.readouterr()
    assert main(["resume", run, "--processes", "2"]) == 2
    assert "a run with stages trains in one process" in capsys.readouterr().err


def test_changed_rows_are_refused(tmp_path: Path) -> None:
    course = several(a=Stage(grpo, Steps(1), makes=RightAnswers()), b=Stage(sft, Steps(2), task="made:a"))
    (tmp_path / "p.py").write_text("")
    run = gradus.train(course, run=tmp_path / "run", **SMALL)
    assert run.stages.ended == {"a": 1, "b": 3}
    path = tmp_path / "run" / "made" / "a.jsonl"
    path.write_text(path.read_text() + path.read_text())
    gradus.resume(tmp_path / "run")  # no step reads the rows any more
    for checkpoint in sorted((tmp_path / "run" / "checkpoints").iterdir())[1:]:
        (checkpoint / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"a.jsonl has changed since the run made it; restore the old file, or delete the changed file"):
        gradus.resume(tmp_path / "run")
    path.unlink()
    assert gradus.resume(tmp_path / "run").stages.ended == {"a": 1, "b": 3}


def test_steps_shorten_the_stages_in_proportion() -> None:
    made = gradus.api.plan("sft:50,grpo:100", steps=9).recipe.schedule.stages  # type: ignore[attr-defined]
    assert {name: stage.until.count for name, stage in made.items()} == {"sft": 3, "grpo": 6}


def test_names_in_turn() -> None:
    made = of_name("sft:3, grpo:4,sft:5")
    assert (made.key, list(made.schedule.stages)) == ("sft_then_grpo_then_sft_3", ["sft", "grpo", "sft_3"])
    assert made.study == sft.study
    with pytest.raises(UserError, match='unknown recipe "gpro"'):
        of_name("sft:3,gpro:4")


def test_a_merge_at_the_end_is_the_final_model(tmp_path: Path) -> None:
    course = several(a=Stage(sft, Steps(1)), b=Stage(sft, Steps(1), start="first"), soup=Merge(Frozen(a=0.5, b=0.5)))
    gradus.train(course, run=tmp_path / "run", **SMALL)
    assert (tmp_path / "run" / "final").resolve() == (tmp_path / "run" / "stages" / "soup").resolve()
    found = RunFolder.open(tmp_path / "run").model("final")
    assert found is not None


def test_a_fusion_adds_the_changes_of_the_experts_to_their_start(tmp_path: Path) -> None:
    course = several(
        warm=Stage(sft, Steps(1)),
        a=Stage(sft, Steps(1)),
        b=Stage(sft, Steps(1), start="warm"),
        fused=Fuse(("a", "b"), start="warm", drop=0.25),
        alone=Fuse(("b",), start="warm", scale=1.0, drop=0.0),
    )
    run = gradus.train(course, run=tmp_path / "run", **SMALL)
    warm, a, b, found, alone = (ended(run, leg) for leg in ("warm", "a", "b", "fused", "alone"))
    due = fused(warm, {"a": a, "b": b}, {"a": 0.75, "b": 0.75}, drop=0.25, key=Key(0).fold("fuse", "fused"))
    assert same(found, due)
    assert same(alone, b)  # one expert, all of its change
    assert not same(found, warm)


def test_mistakes_in_a_fusion() -> None:
    with pytest.raises(UserError, match=r"Fuse.experts is .*; give the names of one or more stages, and each name only once"):
        Fuse(("a", "a"))
    with pytest.raises(UserError, match=r'Fuse.start is "previous"; name the stage with which the experts began'):
        Fuse(("a",), start="previous")
    with pytest.raises(UserError, match=r'unknown stage "c".*Stage f merges it'):
        gradus.train(several(a=Stage(sft, Steps(1)), f=Fuse(("c",))), **SMALL)
    with pytest.raises(UserError, match="stage f is a Fuse and comes first"):
        gradus.train(several(f=Fuse(("a",)), a=Stage(sft, Steps(1))), **SMALL)
