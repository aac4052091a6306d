"""Runs of older versions: the recipes that they stored are read, and they go on to the same bytes."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import gradus
from benchmarks.kills import fingerprint
from gradus.credit.scaled import Scaled
from gradus.papers.credit.attention_rhythm import PlanAndAnchor
from gradus.recipe.core import Recipe
from gradus.recipe.old_paths import MODULES, PARTS, class_today, part_today, path_today
from gradus.recipe.serialise import from_json, to_json
from gradus.types import UserError

STORED = [json.loads(line) for line in Path(__file__).with_name("old_recipes.jsonl").read_text().splitlines()]
"""Recipes as version 0.1.0 wrote them before its folders and parts had the names of today: enough to name each of its parts once."""


def renamed(document: Any) -> Any:
    """The stored recipe with the class paths of today, without the fields that nothing reads any more."""
    if isinstance(document, list):
        return [renamed(item) for item in document]
    if not isinstance(document, dict):
        return document
    now = part_today(document) if "part" in document else document
    return {key: path_today(value) if key in ("part", "function") else renamed(value) for key, value in now.items()}


def holds(whole: Any, part: Any) -> bool:
    """Whether `whole` has every value of `part` in its place; it may have fields that are newer."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and holds(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(holds(w, p) for w, p in zip(whole, part, strict=True))
    return bool(whole == part)


@pytest.mark.parametrize("document", STORED, ids=lambda document: document["key"])
def test_a_stored_recipe_is_read_with_all_its_values(document: dict[str, Any]) -> None:
    read = from_json(document)
    assert isinstance(read, Recipe)
    assert holds(to_json(read), renamed(document))


def test_every_old_path_leads_to_a_part() -> None:
    for path in PARTS.values():
        module, _, name = path.partition(":")
        assert hasattr(importlib.import_module(module), name), path
    for module in MODULES.values():
        importlib.import_module(module)
    text = json.dumps(STORED)
    unused = {old for old in MODULES if f'"{old}:' not in text}
    assert unused == {"gradus.environments.frozen_lake", "gradus.environments.search_qa", "gradus.environments.twenty_questions"} | {
        "gradus.rewards.scored",
        "gradus.rollouts.single",
        "gradus.updates.restarted",
    }  # these stand in no recipe as it comes, only in runs that asked for them


def test_a_moved_field_keeps_its_effect() -> None:
    """`Scaled.when` became a field of the factor. A factor without this field cannot take it, so the recipe is refused."""
    now = to_json(Scaled(factor=PlanAndAnchor()))
    factor = {name: value for name, value in now["factor"].items() if name != "only_positive"}
    for when in ("positive", "all"):
        assert from_json({**now, "factor": factor, "when": when}) == Scaled(factor=PlanAndAnchor(only_positive=when == "positive"))
    assert from_json({**to_json(Scaled()), "when": "all"}) == Scaled()
    with pytest.raises(UserError, match="use the version that wrote the recipe"):
        from_json({**to_json(Scaled()), "when": "positive"})


def test_a_path_of_today_stays() -> None:
    assert path_today("gradus.objectives.trust:Clip") == "gradus.objectives.trust:Clip"
    assert path_today("gradus.recipe.core:Recipe") == "gradus.recipe.core:Recipe"
    assert path_today("gradus.objectives.averages:TokenMean") == "gradus.objectives.aggregation:TokenMean"
    assert path_today("gradus.objectives.terms:Policy") == "gradus.objectives.terms:PolicyGradient"
    assert (class_today("Sweep"), class_today("ShuffledEpochs"), class_today("InFlight")) == ("ShuffledEpochs", "ShuffledEpochs", "InFlight")


def in_old_words(text: str) -> str:
    """A stored document of today with the class paths and class names of before."""
    for old, new in PARTS.items():
        text = text.replace(f'"{new}"', f'"{old}"').replace(f'"part": "{new.partition(":")[2]}"', f'"part": "{old.partition(":")[2]}"')
    for old, new in MODULES.items():
        text = text.replace(f'"{new}:', f'"{old}:')
    return text


def test_an_older_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    small = {"prompts": 2, "group": 2, "save_every": 2, "eval_every": 0, "max_tokens": 4, "keep": 3}
    settings = {f"setting__{name}": value for name, value in small.items()}
    whole = gradus.train("grpo", steps=4, run=tmp_path / "whole", study=None, **settings)
    gradus.train("grpo", steps=2, run=tmp_path / "older", study=None, **settings)
    stored = tmp_path / "older" / "recipe.json"
    stored.write_text(in_old_words(stored.read_text()))
    assert '"gradus.rollouts.acting:Acting"' in stored.read_text()
    assert "gradus.rollouts.auto" not in stored.read_text()
    resumed = gradus.resume(tmp_path / "older", more=4)
    assert resumed.metrics == whole.metrics
    ours, theirs = fingerprint(tmp_path / "older"), fingerprint(tmp_path / "whole")
    assert ours == theirs


OWN = "from gradus.tasks.data.loaders import load_task_file\n\n\ndef task():\n    return load_task_file({path!r})\n"


@pytest.mark.parametrize("spec", ["d.jsonl", "d.jsonl:1,arithmetic:1", "own.py:task"])
def test_text_prompts_of_an_older_run_stay_user_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").write_text("".join(json.dumps({"prompt": f"{n}+1=", "answer": str(n + 1)}) + "\n" for n in range(20)))
    Path("own.py").write_text(OWN.format(path=str(tmp_path / "d.jsonl")))
    small = {"prompts": 2, "group": 2, "save_every": 2, "eval_every": 0, "max_tokens": 4, "keep": 3}
    settings = {f"setting__{name}": value for name, value in small.items()}
    for steps, name in ((4, "whole"), (2, "older"), (2, "newer")):
        options = {} if name == "newer" else {"prompt": "chat"}
        gradus.train("grpo", spec, steps=steps, run=tmp_path / name, study=None, task_options=options, **settings)
    file = tmp_path / "older" / "recipe.json"
    stored = json.loads(file.read_text())
    assert stored.pop("text_prompts") == "raw"
    file.write_text(json.dumps({**stored, "task_options": []}))  # as a version without the option wrote it
    gradus.resume(tmp_path / "older", more=3)
    assert json.loads(file.read_text())["text_prompts"] == "chat"
    gradus.resume(tmp_path / "older", more=4)
    gradus.resume(tmp_path / "newer", more=4)
    ours, theirs, raw = (fingerprint(tmp_path / name) for name in ("older", "whole", "newer"))
    files = [name for name in theirs if name.startswith(("metrics", "rollouts"))]
    assert [ours[name] for name in files] == [theirs[name] for name in files]
    assert raw["metrics.jsonl"] != ours["metrics.jsonl"]  # a run of today keeps its raw prompts


def test_the_state_of_an_older_part_is_taken_up(tmp_path: Path) -> None:
    """The curriculum remembers how many problems it has drawn, under its class name of before."""
    small = {"prompts": 2, "group": 2, "save_every": 1, "eval_every": 0, "max_tokens": 4}
    settings = {f"setting__{name}": value for name, value in small.items()}
    run = gradus.train("grpo", steps=1, run=tmp_path / "run", study=None, **settings)
    state = run.documents()[0]["state.json"]
    entry = state["map"]["memory"]["map"]["curriculum"]["map"]
    assert entry["part"] == "ShuffledEpochs"

    class Older:
        def has(self, name: str) -> bool:
            return False

        def document(self, name: str) -> Any:
            return {"map": {**state["map"], "memory": {"map": {"curriculum": {"map": {**entry, "part": "Sweep"}}}}}}

        def tensors(self, name: str) -> Any:
            return run.players[name.removeprefix("player-").removesuffix(".safetensors")].tensors()

    drawn = run.memory.states["curriculum"]
    run.restore(Older())
    assert run.memory.states["curriculum"] == drawn
