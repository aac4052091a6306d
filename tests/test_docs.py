"""The commands and the Python blocks of README and docs are run, on few and short samples, and print the output that stands below them.

A line `<!-- not run: REASON -->`, `<!-- ends with CODE: REASON -->`, `<!-- file: NAME -->` or `<!-- typed: LINE | LINE -->` may precede a
block. The blocks of a page are run in order in one folder, which holds a
small model at path/to/model. `python -m scripts.outputs` writes the outputs.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from gradus.cli.main import build_parser, split_fields, split_task
from gradus.recipe.core import get
from gradus.recipe.overrides import override, override_all
from gradus.recipe.registry import recipe
from gradus.sandbox import missing
from gradus.types import UserError
from scripts import reference_pages
from scripts.outputs import differs, far, pages
from scripts.pages import ROOT, blocks, run_page

PAGES = pages()
WITH_COMMANDS = [p for p in PAGES if any(b.commands or b.kind == "python" for b in blocks(p))]
LONG = ("packages", "test", "compare", "stages", "policies", "masked", "method", "race", "pictures", "processes", "reward")  # pages of docs/how
DAILY_AND_NIGHTLY = [pytest.param(p, marks=pytest.mark.nightly) if p in {f"docs/how/{name}.md" for name in LONG} else p for p in WITH_COMMANDS]


@pytest.mark.parametrize("page", DAILY_AND_NIGHTLY)
def test_what_is_told_works_and_prints_the_output_below(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "docs/how/code.md" and (reason := missing()) is not None:
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for command, expected, screen in run_page(page, tmp_path):
        assert expected, f"{page}: {command.line}: {screen}"
        assert screen, f"{page}: {command.line} says nothing"
        strange = differs(command, screen) if command.output else None
        assert strange is None, f"{page}: renew the output of: {command.line}: python -m scripts.outputs {page}: {strange!r} in:\n{screen}"


@pytest.mark.nightly
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_a_whole_run_prints_the_numbers_below(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "docs/how/code.md" and (reason := missing()) is not None:
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for command, expected, screen in run_page(page, tmp_path, short=False):
        assert expected, f"{page}: {command.line}: {screen}"
        assert far(command.output, screen) is None, f"{page}: {command.line}: {far(command.output, screen)} in:\n{screen}"


@pytest.mark.parametrize("page", PAGES)
def test_what_cannot_be_run_is_marked(page: str) -> None:
    for block in blocks(page):
        assert block.mark != "not run" or len(block.about) > 8, f"{page}: say why it is not run: {block.text}"
        if block.mark != "not run":
            strange = [command.line for command in block.listed if not command.words and not command.reads and not command.line.startswith("make ")]
            assert not strange, f"{page}: mark the block as not run: {strange}"


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_every_command_that_is_run_has_its_output(page: str) -> None:
    run = [command for block in blocks(page) if block.mark != "not run" and block.kind == "console" for command in block.listed]
    lacking = [command.line for command in run if (command.words or command.reads) and not command.output]
    assert not lacking, f"{page}: write the output: python -m scripts.outputs {page}: {lacking}"


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.mark == "not run" and b.commands for b in blocks(p))])
def test_what_is_not_run_is_understood(page: str) -> None:
    parser, commands = build_parser()
    for words in (words for block in blocks(page) if block.mark == "not run" for words in block.commands):
        known, fields = split_fields(words, commands[words[0]])
        options = parser.parse_args(known)
        if words[0] == "train":
            override_all(recipe(options.recipe), split_task(fields)[0])


@pytest.mark.parametrize("page", PAGES)
def test_targets_are_in_the_makefile(page: str) -> None:
    lines = [command.line for block in blocks(page) for command in block.listed]
    named = {word for line in lines if line.startswith("make ") for word in line.split()[1:]}
    assert named <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))


def test_the_reference_pages_are_fresh() -> None:
    for page in reference_pages.PAGES:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert reference_pages.filled(text) == text, f"docs/{page}: renew it with: make index"


def test_the_list_of_parts_has_every_seam() -> None:
    parts = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)$", parts, re.M)
    seams = {"curriculum", "rollout", "reward", "selection", "credit", "update", "optimizer", "schedule", "search", "study"}
    assert seams <= set(headings)
    assert [part for part in ("LeaveOneOut", "SecondMoment", "Warmup", "HeldOut", "AdamW", "Head", "Logistic") if f"| `{part}` |" not in parts] == []


def test_the_list_of_parts_that_is_behind_is_seen() -> None:
    page = "# A\n\n<!-- generated: parts -->\nstale text\n<!-- end of generated -->\n"
    filled = reference_pages.filled(page)
    assert "## credit" in filled
    assert "stale text" not in filled
    assert reference_pages.filled(filled) == filled


def rows(page: str) -> list[list[str]]:
    """The cells of the tables of a page."""
    lines = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def taken(option: str) -> bool:
    """Whether the command line takes `--name VALUE`; a value in capitals stands for any."""
    name, _, value = option.removeprefix("--").partition(" ")
    if f"--{name}" in {o for action in build_parser()[1]["train"]._actions for o in action.option_strings}:
        return True
    if name.startswith("task."):
        return name in ("task.held_out", "task.prompt_column", "task.sampling.top_p", "task.sampling.top_k", "task.sampling.min_p")
    dual = override(recipe("grpo"), "objective.policy.trust", "DualClip")
    for tried in (recipe("grpo"), dual, recipe("ppo")):
        try:
            if value.isupper():
                tried = override(tried, "players.critic.optimizer", "AdamW") if name.startswith("players.critic.optimizer") else tried
                get(tried, name if "." in name else f"setting.{name}")
            else:
                override(tried, name, value)
        except UserError:
            continue
        return True
    return False


@pytest.mark.parametrize("page", ["docs/from_trl.md", "docs/from_verl.md"])
def test_the_fields_that_are_ours_are_taken(page: str) -> None:
    options = [span for row in rows(page) for span in spans(row[1]) if span.startswith("--")]
    assert len(options) > 30
    assert not [option for option in options if not taken(option)]
    remarks = [span for row in rows(page) if len(row) > 2 for span in spans(row[2]) if span.startswith("--")]
    assert not [option for option in remarks if not taken(option)]


def test_a_field_that_is_not_ours_would_be_seen() -> None:
    assert not taken("--objective.policy.trust.hihg X")
    assert not taken("--objective.policy.average Average")
    assert not taken("--learning_rat X")


def assigned(file: Path) -> set[str]:
    """The names that a module's classes declare as fields."""
    return {
        node.target.id
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="TRL is not installed")
def test_the_fields_of_trl_are_its_own() -> None:
    places = {name: importlib.util.find_spec(name) for name in ("trl", "transformers")}
    homes = {name: Path(str(spec.origin)).parent for name, spec in places.items() if spec is not None}
    known = assigned(homes["trl"] / "trainer" / "grpo_config.py") | assigned(homes["transformers"] / "training_args.py")
    named = {span for row in rows("docs/from_trl.md") if len(row) == 3 for span in spans(row[0])}
    assert len(named) > 30
    assert not named - known
