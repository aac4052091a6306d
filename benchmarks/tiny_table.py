"""How competent a built-in model is before any reinforcement learning: python -m benchmarks.tiny_table [FOLDER] [--problems N].

Per task at its named level, on held-out problems: sampled pass@1 between 0.20 and 0.45 and at least 0.15 above chance, pass@16 at least
0.90, greedy at most 0.60. Exit code 1 where a task misses that.
"""

from __future__ import annotations

import argparse
import sys

import torch

from benchmarks.tiny_corpus import TASKS
from gradus.examination import evaluate
from gradus.study.exam import Exam


def within(exam: Exam) -> bool:
    """Whether there is both something to build on and something to gain."""
    one, many = exam.pass_at[1].mean, exam.pass_at[16].mean
    greedy = exam.greedy.mean if exam.greedy else 0.0
    return max(0.20, exam.chance + 0.15) <= one <= 0.45 and many >= 0.90 and greedy <= 0.60


def row(exam: Exam) -> str:
    """One line of the table."""
    greedy = exam.greedy.mean if exam.greedy else float("nan")
    numbers = (exam.chance, exam.pass_at[1].mean, exam.pass_at[16].mean, greedy)
    return (
        f"| {exam.task} | " + " | ".join(f"{n:.3f}" for n in numbers) + f" | {exam.length.mean:.1f} | {'yes' if within(exam) else 'NO'} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="a model folder; without it the built-in model")
    parser.add_argument("--problems", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| task | chance | pass@1 | pass@16 | greedy | tokens | as it should be |\n| --- | --- | --- | --- | --- | --- | --- |")
    exams = []
    for name in TASKS:
        exams.append(evaluate(options.folder, name, pass_at=(1, 16), problems=options.problems))
        print(row(exams[-1]), flush=True)
    return 0 if all(map(within, exams)) else 1


if __name__ == "__main__":
    sys.exit(main())
