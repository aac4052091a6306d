"""The built-in models before any reinforcement learning: python -m benchmarks.tiny_table [--models base,words] [--problems N].

Requirements per task, at the level that a model was made for, on held-out problems: sampled pass@1 between 0.20 and 0.45 and at least
0.15 above chance, pass@16 at least 0.90, greedy at most 0.60. Exit code 1 if a task of the model `base` misses one.
"""

from __future__ import annotations

import argparse
import sys

import torch

from gradus.api import evaluate
from gradus.policies.tiny import MADE_FOR
from gradus.study.evaluate import Exam


def within(exam: Exam) -> bool:
    """Whether the results meet the requirements above."""
    one, many = exam.pass_at[1].mean, exam.pass_at[16].mean
    greedy = exam.greedy.mean if exam.greedy else 0.0
    return max(0.20, exam.chance + 0.15) <= one <= 0.45 and many >= 0.90 and greedy <= 0.60


def row(exam: Exam) -> str:
    """One line of the table."""
    greedy, length = (value.mean if value else float("nan") for value in (exam.greedy, exam.length))
    numbers = (exam.chance, exam.pass_at[1].mean, exam.pass_at[16].mean, greedy)
    return f"| {exam.task} | " + " | ".join(f"{n:.3f}" for n in numbers) + f" | {length:.1f} | {'yes' if within(exam) else 'NO'} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MADE_FOR), help=f"some of {', '.join(MADE_FOR)}")
    parser.add_argument("--folder", help="folder of the models' folders, if not the package")
    parser.add_argument("--problems", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| task | chance | pass@1 | pass@16 | greedy | tokens | as it should be |\n| --- | --- | --- | --- | --- | --- | --- |")
    exams = []
    for model in options.models.split(","):
        for task, level in MADE_FOR[model].items():
            folder = f"{options.folder}/{model}" if options.folder else None
            exams.append(evaluate(folder, task, pass_at=(1, 16), problems=options.problems, task_options={"level": str(level)}))
            print(row(exams[-1]), flush=True)
    return 0 if all(within(exam) for exam in exams if exam.task in MADE_FOR["base"]) else 1


if __name__ == "__main__":
    sys.exit(main())
