"""The tasks of other packages: `PYTHONHASHSEED=0 python -m benchmarks.packages PACKAGE [NAME ...]` prints a row for each task.

The contract of gradus is tried on every task, at its default configuration and at every level, and two steps are trained. The tasks of
reasoning-gym are also compared with the package alone: another process, without gradus, scores the same completions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gradus
from gradus.tasks.packages import PACKAGES, names_of
from gradus.testing import Effort, check_task
from gradus.training.plan import load_task
from gradus.types import Key, UserError
from gradus.types.parts import Task
from tests.small_model import save_small_model

FEW = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 8, "study__problems": 2, "setting__eval_every": 0}

ALONE = """
import json, sys
import reasoning_gym
from reasoning_gym.utils import extract_answer
answers, sys.stdout = sys.stdout, sys.stderr
for name, level, seed, completions in json.load(sys.stdin):
    kind, settings = reasoning_gym.factory.DATASETS[name]
    if level is None:
        data = reasoning_gym.create_dataset(name, seed=seed, size=1)
    else:
        curriculum = reasoning_gym.factory.create_curriculum(name)
        curriculum.set_global_level(level)
        data = kind(config=curriculum.generate_configuration({"seed": seed, "size": 1}))
    entry = data[0]
    scores = []
    for text in completions:
        try:
            scores.append(float(data.score_answer(extract_answer(text), entry)))
        except Exception as error:
            scores.append(type(error).__name__)
    print(json.dumps([entry["question"], scores]), file=answers)
"""
"""The package alone: the question of each seed, and its score of each completion, or the name of the error that it raises."""


def completions(answer: str | None, other: str | None) -> list[str]:
    """Right, wrong and damaged completions for one problem."""
    known, beside = answer or "[1]", other or "yes"
    inner = [
        known,
        beside,
        known[:-1],
        known + "0",
        f" {known}\n",
        f"the answer is {known}",
        known.upper(),
        known.replace("1", "2"),
        "",
        "[]",
    ]
    return [f"Let me think. <answer>{text}</answer>" for text in inner] + [known, f"<answer>{beside}</answer>\n<answer>{known}</answer>"]


Compared = tuple[str, int | None, int, list[str], list[Any]]
"""Name, level, seed, completions; then the question and our scores."""


def ours(name: str, task: Task, count: int) -> Iterator[Compared]:
    """Held-out problems of a task of reasoning-gym, with completions and our scores of them."""
    assert task.verify is not None
    problems = task.held_out.draw(range(count), task.level, Key(5))
    for i, problem in enumerate(problems):
        texts = completions(problem.answer, problems[i - 1].answer)
        scores = [getattr(score, "reason", score) for score in (task.verify(problem, text) for text in texts)]
        yield name, task.level, problem.meta["seed"], texts, [problem.question, scores]


def differing(rows: Sequence[Compared]) -> list[Compared]:
    """The rows whose question or scores are not those of the package alone. Where its scorer raises, we say 0 or failed."""
    asked = json.dumps([row[:4] for row in rows])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ALONE], input=asked, capture_output=True, text=True, check=True)
    found = []
    for row, line in zip(rows, done.stdout.splitlines(), strict=True):
        question, scores = json.loads(line)
        same = [a == b or (isinstance(b, str) and (a == 0.0 or f"raised {b}:" in str(a))) for a, b in zip(row[4][1], scores, strict=True)]
        if question != row[4][0] or not all(same):
            found.append(row)
    return found


def contract(spec: str, level: float | None, effort: Effort) -> str:
    """The findings of the contract, or ok."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = check_task(load_task(spec, {} if level is None else {"level": str(level)}), effort=effort)
        except UserError as error:
            return str(error)
    return "; ".join(text[:160] for text in report.findings).replace("|", "/") or "ok"


def trained(spec: str, options: dict[str, str]) -> str:
    """Whether two steps train."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = with_long_context(save_small_model(Path(folder) / "model"))
            gradus.train("grpo", spec, model=str(model), task_options=options, steps=2, run=Path(folder) / "run", **FEW)
        except UserError as error:
            return str(error)[:90]
    return "yes"


def with_long_context(model: Path) -> Path:
    """The model with a context of 8,192 tokens: some questions have thousands of characters."""
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8192}))
    return model


def row(package: str, name: str, texts: int) -> list[str]:
    """The cells of one task."""
    spec, began = f"{package}:{name}", time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = load_task(spec)
    cells = [f"`{name}`", contract(spec, None, Effort(problems=6, texts=texts))]
    if package == "reasoning_gym":
        from gradus.tasks.packages.reasoning_gym import levels_of

        levels = levels_of(name)
        if levels is not None:
            effort = Effort(problems=6, texts=60, levels=tuple(sorted({levels[0], levels[1]})))
            cells.append(f"{levels[1] + 1}: {contract(spec, levels[0], effort)}")
        else:
            cells.append("none")
        compared = list(ours(name, task, 4))
        different = differing(compared)
        cells.append(f"{len(compared) - len(different)} of {len(compared)}")
    cells.append(trained(spec, {"answer": "text"} if package == "reasoning_gym" else {}))
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--texts", type=int, default=200, help="hostile texts per task")
    options = parser.parse_args()
    for name in options.names or names_of(options.package):
        try:
            cells = row(options.package, name, options.texts)
        except Exception as error:
            cells = [f"`{name}`", f"{type(error).__name__}: {error}"[:200]]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
