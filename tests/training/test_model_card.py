"""The card of an exported model: its numbers by hand, a head that is YAML, and an edited card that stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gradus.lab.folder import RunFolder
from gradus.recipe import registry
from gradus.recipe.serialise import to_json
from gradus.training.model_card import CARD, CURVE, base_name, card_text, measured, untouched, write_card
from gradus.types import UserError

yaml = pytest.importorskip("yaml")


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., tuple[RunFolder, Path]]:
    """Makes a run of four steps with an evaluation of 10 problems before it and after it, and its model after step 4."""

    def make(name: str = "run", recipe: str = "dapo", task: str = "/home/me/problems.jsonl", **stored: Any) -> tuple[RunFolder, Path]:
        document = {"recipe": to_json(registry.recipe(recipe).but(setting__steps=4)), "task": task, "seed": 7, **stored}
        provenance = {
            "command": ["/bin/gradus", "train", recipe, "--seed", "7"],
            "data": {"/home/me/problems.jsonl": {"bytes": 1234, "sha256": "ab" * 32}},
            "versions": {"gradus": "1.2.3", "source": "feed", "python": "3.11"},
        }
        run = RunFolder.create(tmp_path / name, {"model": None, "task_options": [], **document}, provenance)
        for step in range(4):
            run.append_metrics(step, {"reward": step / 4, "accuracy": step / 4, "tokens/rollout": 100, "tokens/train": 90, "rollouts": 8, **_held(step)})
            run.append_timings(step, {"rollout": 20.0, "update": 10.0})
        run.append_metrics(4, _held(4))
        model = run.path / "checkpoints" / "step-000004" / "model"
        model.mkdir(parents=True)
        (model / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
        return run, model

    return make


def _held(step: int) -> dict[str, Any]:
    """0 of 10 right before step 0, all of 10 after step 4. The exact interval of 10 of 10 begins at the p with p^10 = 0.025."""
    right = {0: 0.0, 4: 1.0}.get(step)
    if right is None:
        return {}
    edge = 0.025**0.1  # 0.6915
    return {"held_out/accuracy": right, "held_out/low": edge * right, "held_out/high": 1 - edge * (1 - right), "held_out/problems": 10}


def head(card: str) -> dict[str, Any]:
    return yaml.safe_load(card.split("---\n")[1])


def rows(card: str) -> dict[str, list[str]]:
    """The cells of every row of every table, by the first cell."""
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if line.startswith("| ")]
    return {row[0].strip("` "): [cell.strip() for cell in row[1:]] for row in found}


def test_the_numbers_of_a_card_by_hand(made: Callable, tmp_path: Path) -> None:
    run, model = made()
    target = tmp_path / "my-model"
    target.mkdir()
    (target / "config.json").write_bytes((model / "config.json").read_bytes())
    card = write_card(run.path, model, target).read_text()
    table = rows(card)
    assert table["accuracy"] == ["0.000", "1.000", "0.692 to 1.000", "10"]
    # four steps of 100 and 90 tokens, 8 answers and 30 seconds
    assert table["tokens sampled"] == ["400"]
    assert table["tokens used in training"] == ["360"]
    assert table["answers"] == ["32"]
    assert table["time in steps"] == ["2m00s on cpu"]
    assert (table["seed"], table["steps"]) == (["7"], ["4"])
    assert table["data"] == ["problems.jsonl, 1,234 bytes, SHA-256 abababababababab"]
    assert table["Gradus"] == ["1.2.3, source feed"]
    assert "```sh\ngradus train dapo --seed 7\n```" in card
    assert head(card)["model-index"][0]["results"][0]["metrics"] == [{"type": "accuracy", "value": 1.0, "name": "held-out accuracy"}]
    assert head(card)["library_name"] == "transformers"
    assert head(card)["license"] == "unknown"
    assert head(card)["tags"][-1] == "dapo"
    assert f"![Learning curve of the run]({CURVE})" in card
    assert ElementTree.fromstring((target / CURVE).read_text()).tag.endswith("svg")
    assert "/home/me" not in card  # a card is published


def test_the_recipe_with_its_changes(made: Callable, tmp_path: Path) -> None:
    run, model = made(recipe="dapo")
    card = card_text(run, model, tmp_path, "m")
    assert "`dapo` changes `grpo`:" in card
    assert rows(card)["objective.policy.trust.high"] == ["0.2", "0.28"]
    assert rows(card)["objective.kl"] == ["KL", "—"]
    assert "This run changes `dapo`:\n\n| field | dapo | this run |\n| --- | --- | --- |\n| `setting.steps` | 200 | 4 |\n\n" in card
    assert "clip(rho_(i,t), 1 - 0.2, 1 + 0.28)" in card
    assert "eprint = {2503.14476}" in card
    assert "@software{gradus," in card


def test_an_earlier_model_has_the_numbers_of_its_step(made: Callable, tmp_path: Path) -> None:
    run, _ = made()
    early = run.path / "checkpoints" / "step-000002" / "model"
    early.mkdir(parents=True)
    card = card_text(run, early, tmp_path, "m")
    assert rows(card)["accuracy"] == ["0.000", "0.000", "0.000 to 0.308", "10"]  # 1 - 0.6915
    assert rows(card)["tokens sampled"] == ["200"]
    assert "The evaluation belongs to step 0, the model to step 2." in card
    assert measured([], 3) == {}


def test_fields_to_fill_in(made: Callable, tmp_path: Path) -> None:
    card = card_text(*made(model="/models/Qwen3-0.6B"), tmp_path, "m")
    filled = re.findall(r"## ([A-Z][a-z ]+)\n\n(?:[^#]+\n\n)?\*\*To fill in:\*\*", card)
    assert filled == ["Intended use", "Limits", "Licence"]
    assert "# base_model: OWNER/Qwen3-0.6B  # fill in the owner" in card
    assert rows(card)["base model"] == ["Qwen3-0.6B"]
    assert head(card)["library_name"] == "gradus"  # the folder has no config.json that names a class of transformers


def test_a_base_model_of_a_run_has_the_name_of_the_run(made: Callable) -> None:
    assert base_name(made("first")[1]) == "first"


def test_an_edited_card_stays(made: Callable, tmp_path: Path) -> None:
    run, model = made()
    target = tmp_path / "exported"
    target.mkdir()
    card = write_card(run.path, model, target)
    first = card.read_text()
    assert untouched(first)
    assert write_card(run.path, model, target).read_text() == first  # nobody edited it
    edited = first.replace("license: unknown", "license: mit")
    card.write_text(edited)
    assert not untouched(edited)
    with pytest.raises(UserError, match=r"README.md was written or edited by a user.*--as card --replace"):
        write_card(run.path, model, target)
    assert card.read_text() == edited
    assert write_card(run.path, model, target, replace=True).read_text() == first


def test_hostile_names_stay_text(made: Callable, tmp_path: Path) -> None:
    evil = "a|b`c\n---\n# <script>alert(1)</script>: {x"
    run, model = made(task=evil)
    run.replan({**run.recipe(), "recipe": {**run.recipe()["recipe"], "key": evil, "about": evil}})
    card = card_text(run, model, tmp_path, evil)
    assert head(card)["tags"][-1] == evil
    assert "<script>" not in re.sub(r"---\n.*?\n---\n", "", card, count=1, flags=re.S)
    assert sum(line.startswith("# ") for line in card.splitlines()) == 1 + card.split("---\n")[1].count("\n# ")


def test_a_run_without_evaluation_or_reward(made: Callable, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "bare", {"recipe": {"key": "mine"}, "task": "t", "seed": 0}, {})
    assert "has no evaluation" in card_text(run, tmp_path, tmp_path, "m", pictured=False)
    assert "![" not in write_card(run.path, tmp_path, tmp_path).read_text()
    run.append_metrics(0, {"loss/policy": 0.5})
    card = write_card(run.path, tmp_path, tmp_path)
    assert f"]({CURVE})" in card.read_text()
    assert "loss/policy: 0.5" in (tmp_path / CURVE).read_text()
    assert card.name == CARD
    assert json.dumps("mine") in card.read_text()


def test_rewards_below_one_have_no_accuracy(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {"recipe": {"key": "flow_grpo"}, "task": "flow_2d", "seed": 0}, {})
    for step in range(2):
        run.append_metrics(step, {"reward": 0.5, "accuracy": 0.0, "held_out/accuracy": 0.0, "held_out/reward": 0.5 + step / 4, "held_out/problems": 8})
    card = write_card(run.path, tmp_path, tmp_path).read_text()
    assert "accuracy" not in card
    assert "| reward | 0.500 | 0.500 |  | 8 |" in card  # no step is saved, so the model is that before step 0
    assert "accuracy in training" not in (tmp_path / CURVE).read_text()
