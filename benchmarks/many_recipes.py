"""The time of the tests with many more recipes: copies the tree, adds copies of a recipe with its tests, and runs the steps of `make test`.

    python -m benchmarks.many_recipes --copies 380

Every copy is a file of its own in `papers/copies` with the tests of its model in `tests/papers/copies`, so that tests of all recipes meet it too.
Prints the seconds of every step. Ends with 1 if a test fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = {
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "in parallel": ["pytest", "-m", "not alone", "-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"],
    "alone": ["pytest", "-m", "alone"],
}


def copy_tree(target: Path) -> None:
    """The files that git knows, and the compiled kernels."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    names += [str(p.relative_to(ROOT)) for p in (ROOT / "gradus/policies/kernels").glob("*.so")]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def add_copies(tree: Path, model: str, count: int) -> None:
    """`count` recipes like `model`, each under a key of its own."""
    family = next(p.parent.name for p in (tree / "gradus/papers").glob(f"*/{model}.py"))
    recipe = (tree / f"gradus/papers/{family}/{model}.py").read_text()
    tests = (tree / f"tests/papers/{family}/test_{model}.py").read_text()
    for folder in ("gradus/papers/copies", "tests/papers/copies"):
        (tree / folder).mkdir()
        (tree / folder / "__init__.py").write_text("")
    for number in range(1, count + 1):
        key = f"copy_{number:03}"
        made = re.sub(rf"\b{model}\b", key, recipe).replace(f'    "{key}",\n', f'    "{key}",\n    family="copies",\n    about=', 1)
        made = re.sub(r'about=\s+"', 'about="', made)
        (tree / f"gradus/papers/copies/{key}.py").write_text(made)
        named = re.sub(rf"\b{model}\b", key, tests).replace(f"gradus.papers.{family}.{key}", f"gradus.papers.copies.{key}")
        (tree / f"tests/papers/copies/test_{key}.py").write_text(named)


def run(words: list[str], tree: Path) -> tuple[float, int]:
    """Seconds and exit code of a Python module with arguments in the tree; its last lines are printed."""
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, "-m", *words], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    print("\n".join(done.stdout.splitlines()[-12:]), flush=True)
    return time.monotonic() - began, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=380)
    parser.add_argument("--model", default="gspo", help="the recipe that is copied; one without parts of its own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        tree = Path(home) / "tree"
        copy_tree(tree)
        add_copies(tree, options.model, options.copies)
        failed = run(["gradus.recipe.index"], tree)[1]
        taken = {}
        for name, words in TESTS.items() if not failed else ():
            taken[name], code = run(words, tree)
            failed = failed or code
    print(f"{options.copies} copies of {options.model}: {', '.join(f'{name} {seconds:.0f} s' for name, seconds in taken.items())}", end="; ")
    print(f"in all {sum(taken.values()) / 60:.1f} minutes")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
