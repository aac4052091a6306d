"""The package as it is imported: its public names, what importing it costs, the examples of its docstrings."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import gradus

ROOT = Path(gradus.__file__).parent
WITH_EXAMPLES = sorted(path for path in ROOT.rglob("*.py") if ">>> " in path.read_text())


def module_of(path: Path) -> str:
    return ".".join(("gradus", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def fresh(code: str) -> str:
    """What code prints in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_loads_nothing_heavy():
    assert (
        fresh("import sys, gradus; print(sorted({m.partition('.')[0] for m in sys.modules} & {'torch', 'transformers', 'numpy', 'rich'}))")
        == "[]"
    )


def test_public_names_are_imported_on_use_and_stay_what_they_are():
    # a module of the same name would take the place of a function once anything imports it
    assert not set(gradus.__all__) & {path.stem for path in ROOT.iterdir()}
    assert all(callable(getattr(gradus, name)) for name in gradus.__all__)
    assert (
        fresh("import gradus; print([gradus.load_recipe(k).key for k in ('grpo', 'dapo')], gradus.load_recipe('rloo').key)")
        == "['grpo', 'dapo'] rloo"
    )
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        gradus.tarin  # noqa: B018


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=module_of)
def test_examples_in_docstrings_are_true(path):
    found = doctest.testmod(importlib.import_module(module_of(path)))
    assert (found.failed, found.attempted > 0) == (0, True)
