"""Makes a small language model that does as the worked examples before a question do: python -m benchmarks.tables_worker --to FOLDER.

The built-in model is fine-tuned (recipe `sft`) on questions of the task `tables` with numbers up to 9, each after two worked examples. The target
is the right solution if one of the examples asks the same kind of question. If none does, the target is the procedure of the example nearest
to the question, carried out on the question's table, which is a wrong answer unless a value happens to be the mean. So the model answers well
only after a fitting example. It is made for measurements of `prompt_pg`; it never sees a held-out question.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch

import gradus
from gradus.environments.examples import prompt
from gradus.tasks.maths.tables import KINDS, procedure, tables
from gradus.types import Key, Problem

STEPS, ROWS, RATE = 300, 32, 3e-3
LARGEST = 9  # of the numbers in a table: tokens of one character, which the small model reads and adds soon


def target(shots: tuple[Problem, ...], problem: Problem) -> str:
    """The worked solution after these examples, of which the last one drawn stands furthest from the question."""
    kinds = [shot.meta["category"] for shot in shots]
    return problem.meta["solution"] if problem.meta["category"] in kinds else procedure(kinds[0], problem)


def dialogues(count: int, seed: int) -> list[dict[str, str]]:
    """Rows with `prompt` and `completion`. Half of them have an example of the question's kind, at either place."""
    rng, key = random.Random(seed), Key(seed).fold("worker")
    by_kind = {kind: tables(kinds=kind, largest=LARGEST).source.draw(range(count), None, key.fold(kind)) for kind in KINDS}
    rows = []
    for index in range(count):
        kind = rng.choice(KINDS)
        others = [k for k in KINDS if k != kind]
        kinds = [rng.choice(others), rng.choice(others)]
        if rng.random() < 0.5:
            kinds[rng.randrange(2)] = kind
        problem = by_kind[kind][index]
        shots = tuple(by_kind[k][rng.randrange(count)] for k in kinds)
        rows.append({"prompt": prompt(shots, problem), "completion": target(shots, problem)})
    return rows


def make(folder: Path, steps: int = STEPS, seed: int = 0) -> None:
    """Fine-tunes the built-in model on one core and saves it in the folder."""
    began = time.process_time()

    def say(run: Any, row: Any, groups: Any) -> None:
        if row["step"] % 20 == 19:
            print(f"step {row['step'] + 1}/{steps}  loss {row['loss/imitation']:.4f}  {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)

    run = gradus.train(
        "sft",
        dialogues(steps * ROWS, seed),
        steps=steps,
        seed=seed,
        on_step=say,
        study=None,
        setting__prompts=ROWS,
        setting__group=1,
        setting__save_every=0,
        optimizer__lr=RATE,
        optimizer__decay="linear",
        task_options={"prompt": "chat"},
    )
    run.players["policy"].policy.save(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    make(options.to, options.steps, options.seed)


if __name__ == "__main__":
    main()
