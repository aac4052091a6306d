"""Who may import whom, read from the source; no shared code names a recipe; the tests mirror the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradus.registry import recipe_modules

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gradus"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each folder may import of the package besides itself; a folder that is not here may import all but the papers.
MAY = {
    "types": set(),
    "credit": {"types"},
    "objectives": {"types"},
    "selection": {"types"},
    "curricula": {"types"},
    "schedules": {"types", "recipe"},
    "sandbox": {"types"},
    "rewards": {"types", "sandbox"},
    "environments": {"types", "sandbox"},
    "rollouts": {"types", "selection"},  # models and rewards only through the world
    "search": {"types", "rollouts", "tasks"},
    "updates": {"types", "objectives"},
    "tasks": {"types", "environments", "sandbox"},
}
ENTRANCES = {"registry.py", "cli.py", "arguments.py", "api.py", "catalogue.py"}  # who may know that there are recipes at all
SUITES = {"faults", "invariance", "reference"}
HEAVY = ("torch", "transformers", "pyarrow", "datasets", "sympy", "networkx", "bm25s")


def folder(path: Path) -> str:
    """The first part of a module's place within the package: its folder, or its file."""
    return path.relative_to(PACKAGE).parts[0]


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions; `from gradus import x` counts as gradus.x."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: imports are absolute"
            yield from ([f"gradus.{a.name}" for a in node.names] if node.module == "gradus" else [str(node.module)])


def ours(path: Path) -> set[str]:
    """The folders (or files at the top) of the package that a file imports from."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("gradus.")}


@pytest.mark.parametrize("name", sorted(MAY))
def test_a_folder_imports_only_what_it_may(name):
    found = {(str(p.relative_to(ROOT)), other) for p in MODULES if folder(p) == name for other in ours(p) - {name} - MAY[name]}
    assert not found


def test_only_the_entrances_import_papers():
    found = [str(p.relative_to(ROOT)) for p in MODULES if folder(p) != "papers" and "papers" in ours(p)]
    assert {Path(f).name for f in found} <= ENTRANCES


def test_papers_import_parts_and_papers_but_nothing_that_runs_them():
    running = {"loop", "run", "train", "world", "state", "api", "cli", "lab", "policies", "tasks", "registry"}
    recipes = [p for p in MODULES if folder(p) == "papers" and len(p.relative_to(PACKAGE).parts) == 3]
    assert len(recipes) > 10
    assert not {(p.name, other) for p in recipes for other in ours(p) & running}


def words(path: Path) -> Iterator[tuple[str, int]]:
    """Every identifier, and every word of every string that is no docstring, with its line."""
    tree = ast.parse(path.read_text())
    blocks = (n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    docs = {id(b.body[0].value) for b in blocks if b.body and isinstance(b.body[0], ast.Expr)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for field in ("id", "attr", "name", "arg", "asname"):
            if isinstance(value := getattr(node, field, None), str):
                yield from ((part, line) for part in value.split("."))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from ((w, line) for w in re.findall(r"\w+", node.value))
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((part, line) for part in node.module.split("."))


def test_no_shared_code_names_a_recipe():
    keys = set(recipe_modules())
    shared = [p for p in MODULES if folder(p) != "papers" and p.name not in ENTRANCES]
    assert not [f"{p.relative_to(ROOT)}:{line} {w}" for p in shared for w, line in words(p) if w in keys]


def test_the_check_would_see_a_name(tmp_path):
    file = tmp_path / "shared.py"
    file.write_text('"""grpo in a docstring is fine."""\nif recipe.key == "is it rloo":\n    from gradus.papers.bases.sft import x\n')
    assert {w for w, _ in words(file)} >= {"rloo", "sft"}
    assert "grpo" not in {w for w, _ in words(file)}


def test_tests_mirror_the_tree():
    """tests/a/test_b.py tests gradus/a/b.py (or benchmarks/b.py), test_contract.py a folder; what tests the whole stands at the top.

    Suites cut across the tree: each asks one question of all its parts.
    """
    homeless = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place, module = path.relative_to(ROOT / "tests").parent, path.name.removeprefix("test_")
        if place.parts and place.parts[0] in SUITES:
            continue
        if module == "contract.py":
            module = "__init__.py"
        homes = (PACKAGE / place / module, PACKAGE / place / module.removesuffix(".py") / "__init__.py", ROOT / place / module)
        if place.parts and not any(h.exists() for h in homes):
            homeless.append(str(path.relative_to(ROOT)))
    assert not homeless


@pytest.mark.parametrize("name", ["credit", "objectives", "selection", "updates", "rollouts", "search", "rewards", "papers"])
def test_every_part_and_every_recipe_has_a_test(name):
    modules = [p.relative_to(PACKAGE) for p in MODULES if folder(p) == name and p.name != "__init__.py"]
    bare = [str(m) for m in modules if not (ROOT / "tests" / m.parent / f"test_{m.name}").exists()]
    assert not bare


def test_files_and_functions_keep_their_size():
    long = []
    for path in MODULES:
        text = path.read_text()
        long += [f"{path.name} has {count} lines"] if (count := len(text.splitlines())) > 400 else []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 60:
                long.append(f"{path.name}: {node.name} has {node.end_lineno - node.lineno + 1} lines")
    assert not long


def test_what_names_things_loads_nothing_heavy():
    code = f"import gradus, gradus.registry, gradus.recipe, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
