"""Memory and time of a divergence from a teacher over a wide vocabulary, against the sampled-token form.

    python -m benchmarks.distillation_memory [--tokens 4096] [--vocabulary 150000] [--pairs 3]

Student and teacher are random decoders (width 256, 4 layers, own heads). The sampled-token form reads log q of the taken actions, then carries the gradient of
the k2 estimate. The other form carries the gradient of KL(p || q) over the vocabulary. Each form runs in a process of its own, in turns. Memory is the peak
increase since before the passes, so the weights of both models do not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.peers import resident
from benchmarks.update_memory import contexts, decoder
from gradus.objectives.kl import kl_estimate
from gradus.policies.lm import LanguageModel
from gradus.types.readers import DivergenceFrom
from gradus.types.signals import LogProb

FORMS = ("sampled", "reverse", "forward")


def side(form: str, options: argparse.Namespace) -> None:
    """Waits for a line, does a pass of the form, reports it."""
    torch.set_num_threads(options.threads)
    student, teacher = (LanguageModel(decoder(options.vocabulary), None, ()) for _ in range(2))
    student.others.update(teacher=teacher)
    made = contexts(options.tokens, options.vocabulary)
    held = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    for _ in sys.stdin:
        student.network.zero_grad()
        began = time.perf_counter()
        if form == "sampled":
            with torch.no_grad():
                theirs = teacher.evaluate(made, [LogProb()])[LogProb()]
            loss = kl_estimate(student.evaluate(made, [LogProb()])[LogProb()], theirs, estimator="k2").mean()
        else:
            want = DivergenceFrom("teacher", "reverse" if form == "reverse" else "forward")
            loss = student.evaluate(made, [want])[want].mean()
        loss.backward()
        print(json.dumps({"seconds": time.perf_counter() - began, "added": resident("VmHWM") - held}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--side", choices=FORMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return side(options.side, options)
    sizes = ["--tokens", str(options.tokens), "--vocabulary", str(options.vocabulary), "--threads", str(options.threads)]
    told: dict[str, list[dict[str, float]]] = {form: [] for form in FORMS}
    command = [sys.executable, "-m", "benchmarks.distillation_memory", *sizes, "--side"]
    processes = {form: subprocess.Popen([*command, form], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for form in FORMS}
    for pair in range(1 + options.pairs):
        for form, process in sorted(processes.items(), reverse=bool(pair % 2)):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            told[form].append(json.loads(process.stdout.readline()))
    for process in processes.values():
        process.communicate()
    print(f"{options.tokens} tokens, vocabulary {options.vocabulary}, {options.threads} threads")
    peak = {form: max(t["added"] for t in rows) for form, rows in told.items()}
    for form in FORMS[1:]:
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(told[form][1:], told["sampled"][1:], strict=True)]
        print(
            f"{form}: memory added {peak[form]:.0f} MiB against {peak['sampled']:.0f} MiB: {peak[form] / peak['sampled']:.2f} (required: at most 1.2); "
            f"time {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        )
    return None


if __name__ == "__main__":
    main()
