"""Tokens at equal accuracy: all recipes with a reward or a rule for the length of answers, on the proving ground `wordy`.

    python -m benchmarks.lengths                       # prints the table; 13 arms, 3 seeds, 30 steps: about 15 minutes of one core
    python -m benchmarks.lengths --run runs/lengths    # keeps the runs, and continues them after an interruption

Every arm starts from the ground's verbose model and makes 30 steps of 64 answers. Numbers that are tokens (limits, budgets, targets, places) are scaled to
answers of at most 60 tokens. The accuracy and the length are those of 60 held-out problems every five steps. "At 0.9" is the shortest mean length of a run
among its evaluations with an accuracy of at least 0.9. Intervals are Student's 95 % intervals over the seeds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch

from gradus.comparison.compare import compare_recipes
from gradus.study.intervals import of_numbers

LEAST = 0.9  # accuracy
_EXITS = "--rollout.mark ' =' --rollout.text ' =' --rollout.limit 6 --rollout.places.count 7 --group 1"
ARMS = {
    "grpo": ("grpo", "none"),
    "dapo": ("dapo --reward.parts.overlong.cache 44", "price near the limit, from 16 tokens on"),
    "magistral": ("magistral --reward.then.parts.overlong.cache 44", "price near the limit, small weight"),
    "kimi_k1_5": ("kimi_k1_5", "length within the group, second half of the run"),
    "grpo_lambda_length": ("grpo_lambda_length", "price in the groups with the most right answers"),
    "drpo": ("drpo --objective.gap.most 60 --temperature 1", "short right answers are raised more"),
    "s_grpo": (f"s_grpo {_EXITS}", "early right exits earn more"),
    "hbpo": ("hbpo --rollout.budgets (16,24,36,48) --rollout.text '{} ' --reward.alpha 0.0167", "budgets, price beyond them"),
    "bingo": ("bingo --reward.start_step 10 --update.epochs 1", "price on repeated tokens"),
    "campo": ("campo --schedule.points ((0,36),(15,60))", "limit of 36 tokens, then 60; price on loops"),
    "demystify_long_cot": ("demystify_long_cot --reward.repetition.n 6 --update.epochs 1", "cosine of the length, price on repetition"),
    "rlsp": ("rlsp --reward.parts.effort.target 60 --update.epochs 1", "reward for length"),
    "ppo": ("ppo --update.epochs 1", "none"),
}
"""Name -> the arm, and its reward for length in words. `scaling_up_rl_prolonged` has no reward for length."""


def curve(path: Path) -> list[tuple[float, float]]:
    """Returns (accuracy, length) of every evaluation of a run."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["held_out/accuracy"], row["held_out/length"]) for row in rows if "held_out/length" in row]


def said(values: list[float], digits: int, short: int = 0) -> str:
    """Returns the mean and its interval as text. `short`: the number of seeds without a value."""
    if not values:
        return "never"
    found = of_numbers(values)
    alone = found.low is None or found.high is None
    text = f"{found.mean:.{digits}f}" if alone else f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"
    return f"{text}, {short} seeds never" if short else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.run or Path(temporary) / "lengths"
        compare_recipes(
            *(f"{name}={arm}" for name, (arm, _) in ARMS.items()),
            run=folder, processes=1, ground="wordy", seeds=3, budget=f"steps={options.steps}",
            fields={"eval_every": "5", "study.problems": "60", "study.samples": "1", "study.greedy": "false"},
        )  # fmt: skip
        print("| recipe | reward for length | tokens at 0.9 | tokens at the end | accuracy at the end |\n| --- | --- | --- | --- | --- |")
        for name, (_, about) in ARMS.items():
            curves = [curve(path) for path in sorted(folder.glob(f"runs/{name}-seed*/metrics.jsonl"))]
            best = [min(lengths) for rows in curves if (lengths := [n for a, n in rows if a >= LEAST])]
            ends = [rows[-1] for rows in curves if rows]
            cells = (said(best, 1, len(curves) - len(best)), said([n for _, n in ends], 1), said([a for a, _ in ends], 3))
            print(f"| {name} | {about} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
