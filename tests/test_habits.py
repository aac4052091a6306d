"""The pages for contributors are true: their commands, paths and links exist, hooks need no network, and the workflow runs the tests of `.ci/run`."""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import gradus

ROOT = Path(__file__).parent.parent
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")
MAKEFILE = (ROOT / "Makefile").read_text()


def spans(page: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.M | re.S))


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text())
    assert not [t for t in targets if not t.startswith("https://") and not (ROOT / t).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    paths = [s for s in spans(page) if re.fullmatch(r"\.?[a-z_]+(/[\w.]+)+", s) and not s.startswith("build/")]
    assert not [p for p in paths if not (ROOT / p).exists() and not re.search(r"[A-Z]{3}|/a/", p)]


@pytest.mark.parametrize("page", PAGES)
def test_targets_are_in_the_makefile(page: str) -> None:
    named = set(re.findall(r"\bmake ([a-z]+)`", (ROOT / page).read_text()))
    assert named <= set(re.findall(r"^(\w+):", MAKEFILE, re.M))


def test_no_link_is_tracked() -> None:
    """A tracked link `.venv` would replace the environment of every checkout that takes the commit."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = [line.split("\t")[1] for line in listed.splitlines() if line.startswith("120000")]
    assert not tracked, f"take these links out, then commit: git rm --cached {' '.join(tracked)}"


@pytest.mark.parametrize("page", PAGES)
def test_no_address_is_made_up(page: str) -> None:
    assert "@" not in (ROOT / page).read_text()


def test_the_workflow_runs_what_decides() -> None:
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_hooks_are_the_programs_of_make_lint() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"  # nothing is downloaded
    lint = "".join(re.findall(r"^(?:style|lint):.*\n((?:\t.+\n)+)", MAKEFILE, re.M))
    asked = {" ".join(line.split()[:3]) for line in lint.replace("$(BIN)", ".venv/bin").splitlines()}
    for hook in repository["hooks"]:
        assert any(line.startswith(" ".join(hook["entry"].split()[:3]).removesuffix(" --force-exclude")) for line in asked), hook["entry"]
    assert len(repository["hooks"]) == len(asked)


@pytest.mark.parametrize("form", ["bug", "recipe", "question"])
def test_issue_forms_ask_for_something(form: str) -> None:
    body = read(f".github/ISSUE_TEMPLATE/{form}.yml")["body"]
    assert len({field["id"] for field in body}) == len(body)
    assert any(field.get("validations", {}).get("required") for field in body)


def test_the_changelog_has_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (.+)$", text, re.M)
    assert releases[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_version_of_a_checkout_is_the_fallback_of_the_build() -> None:
    import tomllib

    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools_scm"]
    assert f'__version__ = "{configured["fallback_version"]}"' in Path(gradus.__file__).read_text()
    assert configured["write_to_source"] is False  # a file in the checkout would keep the commit of an older build


PAPERS = sorted((ROOT / "gradus" / "papers").rglob("*.py"))

def own_lines(text: str) -> int:
    """The number of lines of a paper's file without blank lines, comments, imports and the tuple `claims`."""
    left_out = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "claims"):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in left_out]
    return sum(bool(line) and not line.startswith("#") for line in kept)


def test_own_lines_are_counted() -> None:
    text = '"""A.\n\nB."""\n\nfrom a import (\n    b,\n)\n\n# why\nx = 1  # here\n\nclaims = (\n    b(x),\n)\n'
    assert own_lines(text) == 3  # two lines of the docstring, and x


def test_a_paper_is_a_short_file() -> None:
    """A longer file does not read like the method section of a paper. Move a general piece to the folder of its seam, with its own test."""
    lengths = {path.relative_to(ROOT).as_posix(): sum(bool(line.strip()) for line in path.read_text().splitlines()) for path in PAPERS}
    assert not {path: lines for path, lines in lengths.items() if lines > 200}
    core = [own_lines(p.read_text()) for p in PAPERS if p.parent.name in ("objectives", "credit", "data") and p.name != "__init__.py"]
    assert statistics.median(core) <= 60
