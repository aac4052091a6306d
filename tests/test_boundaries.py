"""The floors of the house, read from the source: imports go down, shared code depends on no recipe, the tests mirror the tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from gradus.recipe.registry import recipe_modules

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gradus"
MODULES = sorted(PACKAGE.rglob("*.py"))

# The floors of the house. A folder imports from its own files and from the floors below it, never from its own floor or above.
FLOORS = (
    {"types"},
    {"runtime", "credit", "objectives", "selection", "curricula", "schedules"},
    {"sandbox", "workers", "rollouts", "updates", "policies"},
    {"tools"},
    {"rewards", "environments", "lab"},
    {"tasks", "recipe"},
    {"players", "search", "study", "serving"},
    {"papers", "training"},
    {"systems", "testing", "simulation"},
    {"checks"},
    {"api.py"},
    {"comparison"},
    {"grounds"},
    {"advice"},
    {"cli"},
    {"__main__.py", "__init__.py"},
)
# The floors would allow more to these; models and rewards reach them only through the world.
MAY = {
    "credit": {"types"},
    "objectives": {"types"},
    "selection": {"types"},
    "curricula": {"types"},
    "schedules": {"types"},
    "workers": {"types", "runtime"},
    "sandbox": {"types", "runtime"},
    "rewards": {"types", "runtime", "sandbox", "workers"},
    "tools": {"types", "runtime", "sandbox"},
    "environments": {"types", "sandbox", "tools"},
    "rollouts": {"types", "runtime", "selection"},
    "updates": {"types", "runtime", "objectives"},
    "tasks": {"types", "runtime", "environments", "sandbox", "tools"},
    "search": {"types", "rollouts", "tasks"},
    "serving": {"types", "policies"},
    "simulation": {"types", "lab", "recipe", "training"},
    "papers": {
        "types", "curricula", "rollouts", "rewards", "environments", "tools", "selection", "credit", "objectives", "updates", "schedules", "search", "study",
        "recipe",
    },
}
SUITES = {"faults", "invariance", "reference"}
HEAVY = ("torch", "scipy", "transformers", "pyarrow", "datasets", "sympy", "networkx", "bm25s")


def folder(path: Path) -> str:
    """The first part of a module's path within the package: its folder, or its file."""
    return path.relative_to(PACKAGE).parts[0]


def floor(name: str) -> int:
    """The floor of a folder or of a file at the package root, counted from 0."""
    return next(number for number, names in enumerate(FLOORS) if {name, f"{name}.py"} & names)


def imported(path: Path) -> Iterator[str]:
    """The dotted name of everything that a file imports, also inside functions: `from gradus.x import y` counts as gradus.x.y."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """The folders (or files at the root) of the package that a file imports from."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("gradus.")} - {"__version__", "_version"}


def module(path: Path) -> str:
    """The dotted name of a file of the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_nothing_is_loose_at_the_root():
    assert {p.name for p in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "api.py"}


def test_every_folder_has_a_floor():
    assert {folder(p) for p in MODULES} == set().union(*FLOORS)


def test_no_import_goes_up():
    up = [
        f"{p.relative_to(ROOT)} imports {other}"
        for p in MODULES
        for other in ours(p) - {folder(p)}
        if floor(other) >= floor(folder(p)) and (p.name != "__init__.py" or p.parent != PACKAGE)
    ]
    assert not up


def test_no_circle_of_files():
    modules = {module(p): p for p in MODULES}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        found = {(m if m in modules else m.rpartition(".")[0]) for m in imported(path)}
        graph[name] = (found & modules.keys()) - {name, "gradus"}
    graph["gradus"] = set()  # its names are imported on use
    TopologicalSorter(graph).prepare()  # raises CycleError and names the files


@pytest.mark.parametrize("name", sorted(MAY))
def test_a_folder_imports_only_its_own_parts(name):
    found = {(str(p.relative_to(ROOT)), other) for p in MODULES if folder(p) == name for other in ours(p) - {name} - MAY[name]}
    assert not found


def test_only_papers_import_papers():
    assert not {str(p.relative_to(PACKAGE)) for p in MODULES if folder(p) != "papers" and "papers" in ours(p)}  # the registry finds them


def test_papers_do_not_ask_the_registry():
    recipes = [p for p in MODULES if folder(p) == "papers" and len(p.relative_to(PACKAGE).parts) == 3]
    assert len(recipes) > 10
    assert not {p.name for p in recipes if any(name.startswith("gradus.recipe.registry") for name in imported(p))}


def strings(node: ast.AST) -> set[str]:
    """Every text constant at or below a node."""
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def of_a_recipe(node: ast.AST) -> bool:
    """Whether an expression reads the identity of a recipe: `recipe.key`, `run.recipe.base`, `made.family`."""
    return isinstance(node, ast.Attribute) and node.attr in ("key", "base", "family") and "recipe" in ast.unparse(node.value).lower()


def uses(path: Path, keys: set[str]) -> Iterator[str]:
    """Every place where a file depends on one recipe: imports it, loads it by its key, or decides by a recipe's key, base or family."""
    for node in ast.walk(ast.parse(path.read_text())):
        line = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gradus.papers."):
            if node.module != "gradus.recipe.index":
                yield f"{line} imports {node.module}"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("recipe", "load_recipe") and node.args and strings(node.args[0]) & keys:
                yield f"{line} loads {ast.unparse(node.args[0])}"
        elif isinstance(node, ast.Compare) and any(map(of_a_recipe, [node.left, *node.comparators])) and strings(node):
            yield f"{line} compares {ast.unparse(node)}"
        elif isinstance(node, ast.Match) and of_a_recipe(node.subject):
            yield f"{line} matches {ast.unparse(node.subject)}"
        elif isinstance(node, ast.Subscript) and of_a_recipe(node.slice):
            yield f"{line} looks up {ast.unparse(node)}"


def test_no_shared_code_depends_on_one_recipe():
    keys = set(recipe_modules())
    assert not [use for p in MODULES if folder(p) != "papers" for use in uses(p, keys)]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from gradus.papers.bases.sft import sft", ["imports"]),
        ("made = load_recipe('grpo')", ["loads"]),
        ("made = registry.recipe('rloo')", ["loads"]),
        ("if run.recipe.key == 'is it rloo': pass", ["compares"]),
        ("if recipe.family in ('bases', 'credit'): pass", ["compares"]),
        ("limit = {'grpo': 1}[recipe.key]", ["looks up"]),
        ("match recipe.key:\n    case 'grpo': pass", ["matches"]),
        ("def train(recipe='grpo'): return load_recipe(recipe)", []),  # a default that a user may replace
        ("info = path.stat(); dump = 'sft'; sec = {'dapo': 1}", []),  # words that are also keys
    ],
)
def test_the_check_sees_a_use_and_no_word(tmp_path, code, found):
    (tmp_path / "shared.py").write_text(code)
    assert [use.split(" ", 1)[1].startswith(kind) for use, kind in zip(uses(tmp_path / "shared.py", {"grpo", "rloo"}), found, strict=True)] == [
        True
    ] * len(found)


def test_tests_mirror_the_tree():
    """tests/a/test_b.py tests gradus/a/b.py (or benchmarks/b.py), test_contract.py a folder. Tests of the whole stand at the top.

    A suite cuts across the tree: it asks one question of all parts.
    """
    homeless = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place, module = path.relative_to(ROOT / "tests").parent, path.name.removeprefix("test_")
        if place.parts and place.parts[0] in SUITES:
            continue
        if module == "contract.py":
            module = "__init__.py"
        stem = module.removesuffix(".py")
        homes = [root / place / name for root in (PACKAGE, ROOT) for name in (module, f"{stem}/__init__.py")]
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
    code = f"import gradus, gradus.recipe.registry, gradus.recipe.core, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
