"""Where a value comes from: every place that set it, in order, with its line; what it means and may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradus.cli.explain import (
    SEAMS,
    chain,
    comment_of,
    explain,
    explain_option,
    explain_run,
    explain_task_option,
    place_of_change,
    stages_of,
)
from gradus.cli.main import main
from gradus.cli.origins import told
from gradus.players.rates import rate_for, size_of
from gradus.recipe.core import Recipe, describe, get
from gradus.recipe.registry import recipe, recipe_modules
from gradus.types import UserError
from gradus.types.frozen import value_fields
from gradus.types.ranges import declared_range
from tests.small_model import save_small_model

ROOT = Path(__file__).parents[2]


def line(place: str) -> str:
    """The text at file:line of the package."""
    file, _, number = place.rpartition(":")
    return (ROOT / file).read_text().splitlines()[int(number) - 1]


def test_the_chain_of_recipes_and_their_lines() -> None:
    found = explain("objective.policy.trust.high", recipe("dapo"))
    assert found.chain == ("reinforce", "grpo", "dapo")
    assert [(o.source, o.value) for o in found.origins] == [("default of Clip", 0.2), ("grpo", 0.2), ("dapo", 0.28)]
    assert [line(o.place).strip() for o in found.origins] == [
        "high: float = 0.2",
        "objective__policy__trust=Clip(0.2, 0.2),",
        "objective__policy__trust=Clip(low=0.2, high=0.28),",
    ]
    assert (found.value, found.kind, found.allowed) == (0.28, "float", "[0, inf]")
    assert "the ratio is clipped to [1 - low, 1 + high]" in found.meaning


def test_every_stage_that_changes_a_value_is_told() -> None:
    given = [("learning_rate", "3e-4"), ("objective.policy.trust.high", "0.4")]
    stages = stages_of("dapo", given, model="mine", steps=7)
    assert [source.split(",")[0] for source, _, _ in stages] == [
        "profile small",
        "--steps 7",
        "--learning_rate 3e-4 --objective.policy.trust.high 0.4",
    ]
    rate = explain("learning_rate", recipe("dapo"), stages)
    assert rate.path == "setting.learning_rate"
    assert [o.value for o in rate.origins] == [None, 3e-4]
    assert rate.meaning.startswith("learning rate of every player without its own rate; None: ")
    assert [o.value for o in explain("steps", recipe("dapo"), stages).origins] == [200, 500, 7]
    assert explain("steps", recipe("dapo"), stages_of("dapo", [], profile="paper")).origins[-1].source == "--profile paper"
    assert explain("credit.scale", recipe("dapo"), stages).origins[-1].source == "grpo"


def test_a_learning_rate_that_is_left_out_is_explained_by_the_rule(tmp_path: Path) -> None:
    model = str(save_small_model(tmp_path / "model"))
    found = explain("learning_rate", recipe("grpo"), stages_of("grpo", [], model=model))
    assert found.value == rate_for(size_of(model))
    assert found.origins[-1].source == f"by rule: {found.value:g} for {size_of(model):,} parameters, all of them trained"
    assert explain("learning_rate", recipe("grpo"), stages_of("grpo", [])).value == 1e-4
    assert explain("learning_rate", recipe("grpo"), stages_of("grpo", [], model="nowhere")).value is None
    assert [o.source for o in explain("credit", recipe("grpo"), stages_of("grpo", [], model=model)).origins][-1] == "grpo"


def test_a_value_that_came_with_another_part_is_that_parts_default(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def score(completions, **columns):\n    return [0.0] * len(completions)\n")
    spec = f"{tmp_path / 'r.py'}:score"
    found = explain("reward.timeout", recipe("grpo"), stages_of("grpo", [], reward=spec))
    assert [o.source for o in found.origins] == ["default of Function"]
    assert line(found.origins[0].place).strip().startswith("timeout: float = 60.0")
    typed = explain("reward.timeout", recipe("grpo"), stages_of("grpo", [("reward.timeout", "5")], reward=spec))
    assert [(o.source, o.value) for o in typed.origins] == [("default of Function", 60.0), ("--reward.timeout 5", 5.0)]


def test_a_field_that_a_recipe_takes_away() -> None:
    found = explain("objective.kl.coefficient", recipe("dapo"))
    assert [(o.source, o.value) for o in found.origins] == [("grpo", 0.04), ("dapo (removes it)", None)]
    assert line(found.origins[-1].place).strip() == "objective__kl=None,"
    assert found.meaning == "recipe dapo has no objective.kl; --objective.kl KL would set one"
    assert "set it" not in told(found)


def test_a_part_is_told_as_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    text = told(explain("objective.policy", recipe("grpo")))
    assert text.startswith("objective.policy = PolicyGradient\n")
    assert "  reinforce  PolicyGradient (trust Unclipped, average SequenceSum, coefficient 1.0)" in text
    rows = text.splitlines()
    at = next(i for i, row in enumerate(rows) if row.startswith("fields"))
    assert [row.split() for row in rows[at : at + 3]] == [["fields"], ["ratio", "TokenRatio"], ["against", "old"]]
    every = told(explain("players", recipe("ppo")))
    assert every.startswith("players = policy, critic, reference\n")
    assert "policy, critic, reference  gradus/papers/bases/ppo.py" in every  # too long for one line with all numbers
    assert "Frozen(" not in every


def test_a_part_names_its_fields_and_those_that_fit() -> None:
    found = explain("objective.policy.trust", recipe("grpo"))
    assert dict(found.fields) == {"low": 0.2, "high": 0.2}
    assert {"Clip", "DualClip", "Unclipped"} <= set(found.allowed.split(", "))
    assert "GAE" not in found.allowed
    assert explain("credit.scale", recipe("grpo")).allowed.split(", ")[:2] == ["population", "sample"]
    assert explain("setting.recompute", recipe("grpo")).allowed == "true, false"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("objective.polcy.trust", 'unknown field "polcy" (did you mean policy?)'),
        ("lr", 'unknown field "lr"; use learning_rate instead'),
        ("learnin_rate", 'unknown field "learnin_rate" (did you mean learning_rate?). List the fields with: gradus show grpo'),
        ("nonsense", 'unknown field "nonsense". List the fields'),
        ("trust.high", 'unknown field "trust.high"; write the full path: objective.policy.trust.high. List the fields'),
        ("procesess", "did you mean processes?"),
    ],
)
def test_an_unknown_field_is_told_with_the_nearest(path: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        explain(path, recipe("grpo"))
    assert said in str(error.value)


def test_options_of_the_command_and_of_tasks() -> None:
    grpo = recipe("grpo")
    found = explain_option("seed", grpo)
    assert found is not None
    assert (found.value, found.kind) == (0, "int")
    assert "equal to the last byte" in found.meaning
    assert explain_option("steps", grpo) is None  # a field of the setting
    assert explain_option("nothing", grpo) is None
    level = explain_task_option("task.level", "string_ops", {"level": "5"})
    assert [o.value for o in level.origins] == [3, 5]
    assert "1 to 8" in level.meaning
    assert line(level.origins[0].place).startswith("def string_ops(")
    assert explain_task_option("task.sampling.top_p", "arithmetic", {"sampling.top_p": "0.5"}).value == 0.5
    assert "in the column `prompt_column`" in explain_task_option("task.prompt_column", "gone.jsonl", {}).meaning
    with pytest.raises(UserError, match=r"unknown option \"--task.levl\" \(did you mean --task.level"):
        explain_task_option("task.levl", "string_ops", {})


def test_an_option_of_a_packages_task() -> None:
    pytest.importorskip("reasoning_gym")
    level = explain_task_option("task.level", "reasoning_gym:gcd", {"level": "2"})
    assert [o.value for o in level.origins] == [None, 2]
    assert level.meaning.startswith("`level` sets every attribute of the curriculum")
    assert line(level.origins[0].place).startswith("def task(")


def test_a_recipe_and_a_task_of_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from gradus.recipe.registry import recipe\nfrom gradus.tasks.maths.arithmetic import arithmetic\n\n\ndef task(size: int = 3):\n"
        "    'A task of a size.'\n    return arithmetic()\n\n\n"
        "mine = recipe('grpo').derive(\n    'mine', 'Wider.',\n    objective__policy__trust__high=0.3,\n)\n"
    )
    assert place_of_change(f"{file}:mine", "objective.policy.trust.high") == f"{file}:12"
    assert place_of_change(f"{file}:gone", "objective.policy.trust.high") == ""
    assert explain_task_option("task.size", f"{file}:task", {"size": "4"}).value == 4


def test_a_run_is_explained_by_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    words = "train grpo --steps 1 --prompts 2 --group 2 --max_tokens 4 --study none --run run --objective.policy.trust.high 0.3"
    monkeypatch.setattr("sys.argv", ["gradus", *words.split()])
    assert main(None) == 0
    found = explain_run("run", "objective.policy.trust.high")
    assert [o.value for o in found.origins] == [0.2, 0.2, 0.3]
    assert "--objective.policy.trust.high 0.3" in found.origins[-1].source
    stored = json.loads(Path("run/recipe.json").read_text())
    stored["recipe"]["setting"]["steps"] = 9  # as a resume with more steps leaves it
    Path("run/recipe.json").write_text(json.dumps(stored))
    steps = explain_run("run", "steps")
    assert (steps.value, steps.origins[-1].source, steps.origins[-1].place) == (9, "the run's file", "run/recipe.json")
    Path("run/provenance.json").write_text('{"command": ["script.py"]}')
    assert [o.source for o in explain_run("run", "prompts").origins] == ["default of Setting", "the run's file"]
    capsys.readouterr()
    assert main(["explain", "steps", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 9


def test_what_the_command_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["explain", "update.epochs", "ppo", "--update.epochs", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "update.epochs = 2"
    assert next(text for text in said if text.startswith("  -> ")).split()[1:] == ["--update.epochs", "2", "2"]
    assert any("gradus/papers/bases/ppo.py:" in text for text in said)
    assert "set it   --update.epochs VALUE on the command line, update__epochs=VALUE in Python" in said


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_every_field_of_every_recipe_is_explained(key: str) -> None:
    made = recipe(key)
    assert chain(made)[-1] is made
    for path, _ in describe(made):
        found = explain(path, made)
        assert found.value == get(made, path)
        assert found.origins, path
        assert found.origins[-1].value == found.value, path
        assert path in told(found)
        assert found.meaning or path.count(".") > 1, path


def test_every_seam_has_a_meaning() -> None:
    assert set(SEAMS) == {f.name for f in value_fields(Recipe)} - {"key", "base", "about", "family", "policy"}


def test_comments_and_ranges_are_read_from_where_they_stand() -> None:
    setting = type(recipe("grpo").setting)
    assert comment_of(setting, "group") == "samples per problem"
    assert comment_of(setting, "nothing") == ""
    assert declared_range(setting, "group") == "[1, inf)"
    assert declared_range(setting, "precision") is None
