"""Start-up time of the commands: medians over whole processes, and the time from the command to the end of the first training step.

    python -m benchmarks.start [--runs 7]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRADUS = Path(sys.executable).parent / "gradus"


def seconds(*words: str) -> float:
    began = time.perf_counter()
    subprocess.run([str(GRADUS), *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def first_step() -> float:
    """Seconds from the command to the line of the first step in metrics.jsonl, with the evaluation before it."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        began = time.perf_counter()
        process = subprocess.Popen([str(GRADUS), "train", "grpo", "--task", "string_ops", "--steps", "50", "--run", str(run)], stdout=subprocess.DEVNULL)
        while not (run / "metrics.jsonl").exists():
            if process.poll() is not None:
                raise RuntimeError(f"training ended with {process.returncode} before its first step")
            time.sleep(0.01)
        taken = time.perf_counter() - began
        process.kill()
        process.wait()
        return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    for words in (["--help"], ["papers"], ["tasks"]):
        seconds(*words)
        print(f"gradus {' '.join(words):<8} {statistics.median(seconds(*words) for _ in range(runs)):.2f} s (median of {runs})", flush=True)
    print(f"first training step {statistics.median(first_step() for _ in range(3)):.2f} s (median of 3)")


if __name__ == "__main__":
    main()
