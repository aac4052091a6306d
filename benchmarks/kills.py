"""Kills a training run with SIGKILL at random moments, resumes it each time, and compares it with one that was never interrupted.

    python -m benchmarks.kills --kills 20

Everything deterministic must be equal byte for byte: metrics.jsonl, every stored rollout, the final weights.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARGUMENTS = ["--task", "arithmetic", "--setting.prompts", "4", "--setting.group", "4", "--setting.save_every", "3", "--setting.eval_every", "5",
             "--study.problems", "16"]  # fmt: skip


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gradus", *words]


def fingerprint(run: Path) -> dict[str, str]:
    """sha256 of all that must not depend on interruptions, by path within the run."""
    files = [run / "metrics.jsonl", *sorted((run / "rollouts").glob("*")), *sorted((run / "final").glob("*.safetensors"))]
    return {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def train(run: Path, recipe: str, steps: int, extra: list[str]) -> list[str]:
    return command("train", recipe, "--steps", str(steps), "--run", str(run), *ARGUMENTS, *extra)


def killed_run(run: Path, recipe: str, steps: int, kills: int, rng: random.Random, extra: list[str], horizon: float) -> int:
    """Trains, killing and resuming until `kills` kills have struck; then lets it finish. Returns how many kills struck."""
    words, struck = train(run, recipe, steps, extra), 0
    while True:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            # the delay counts from the moment the run exists, so that kills fall into training and saving rather than into imports
            deadline = time.monotonic() + 60
            while not (run / "metrics.jsonl").exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            process.wait(timeout=rng.uniform(0.0, horizon) if struck < kills else 600)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            struck += 1
            words = command("resume", str(run)) if (run / "recipe.json").exists() else train(run, recipe, steps, extra)
            continue
        if process.returncode != 0:
            assert process.stderr is not None
            raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {process.stderr.read().decode()[-2000:]}")
        if struck >= kills:
            return struck
        words = command("resume", str(run))  # it finished before the kill: the last steps are redone from the last checkpoint
        kills = struck


def compare(recipe: str, *, steps: int, kills: int, seed: int = 0, horizon: float = 6.0, extra: list[str] | None = None) -> tuple[int, list[str]]:
    """(kills that struck, paths that differ)."""
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = Path(folder) / "whole", Path(folder) / "broken"
        subprocess.run(train(whole, recipe, steps, extra or []), check=True, stdout=subprocess.DEVNULL)
        struck = killed_run(broken, recipe, steps, kills, random.Random(seed), extra or [], horizon)
        a, b = fingerprint(whole), fingerprint(broken)
        return struck, sorted(p for p in {*a, *b} if a.get(p) != b.get(p))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="grpo")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200, help="so many that the run does not end before the last kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--horizon", type=float, default=6.0, help="longest time from a start to its kill, seconds")
    options = parser.parse_args()
    failed = False
    for recipe in options.recipes.split(","):
        struck, different = compare(recipe, steps=options.steps, kills=options.kills, seed=options.seed, horizon=options.horizon)
        print(f"{recipe}: {struck} of {options.kills} kills struck, {len(different)} files differ {different[:5]}", flush=True)
        failed |= bool(different) or struck < options.kills
    sys.exit(failed)


if __name__ == "__main__":
    main()
