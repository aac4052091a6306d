"""Each compiled kernel against PyTorch's operations and against torch.compile on the same shapes, and what the kernel gains in a whole step.

    python -m benchmarks.kernels [--rounds 15] [--threads 2] [--width 256] [--no-compile] [--no-steps]

float32 on the CPU. A decoding step has 128 rows, after prompts of 64 tokens that 16 rows share, and after 64 tokens of their own; a table of 4,096 tokens.
An update has 2,048 rows: 8 prompts of 64 tokens, each with 8 answers of 24. All ways first give the same numbers. Then they take turns: a round measures each
way once, in another order than the round before. A ratio is the geometric mean over the rounds, with Student's 95 % interval of its logarithm. Forward and
backward pass of a kernel of the update are measured together. `lines`: lines of C that only this kernel uses, + lines that it shares with others.

The whole step is a call of the engine (128 answers of 32 tokens) or a forward and backward pass of a decoder of 4 layers, with one kernel replaced by PyTorch's
operations against all kernels. The step without `attend` is compared with a step that also lacks `add_norm` and `gated`, because without `attend` the engine uses
none of them.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._inductor.config

from benchmarks import kernel_ways as ways
from gradus.policies import compiled, engine, fused, kernels, pack
from gradus.policies.lm import LanguageModel
from gradus.study.intervals import of_numbers
from gradus.types import Key, Sampling
from gradus.types.signals import LogProb

SOURCES = ("decoding.c", "training.c", "rows.h")
LEAST = 0.02  # seconds of one measurement


@dataclass(frozen=True)
class Ratio:
    """A geometric mean over rounds, and its 95 % interval."""

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.low is None or self.high is None else f"{self.mean:.2f} ({self.low:.2f}-{self.high:.2f})"


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Returns the ratio of two rows of times, round by round.

    >>> str(ratio([2.0, 2.0], [1.0, 1.0]))
    '2.00 (2.00-2.00)'
    """
    found = of_numbers([math.log(a / b) for a, b in zip(over, under, strict=True)])
    low, high = (None if x is None else math.exp(x) for x in (found.low, found.high))
    return Ratio(math.exp(found.mean), low, high)


def measured(sides: Mapping[str, Callable[[], object]], rounds: int, least: float = LEAST) -> dict[str, list[float]]:
    """Returns the seconds of a call of each side in every round. The sides take turns."""
    counts = {}
    for name, side in sides.items():
        side()
        began = time.perf_counter()
        side()
        counts[name] = max(1, math.ceil(least / (time.perf_counter() - began)))
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(rounds):
        for name in (names[number % len(names) :] + names[: number % len(names)])[:: -1 if number % 2 else 1]:
            side, count = sides[name], counts[name]
            began = time.perf_counter()
            for _ in range(count):
                side()
            seconds[name].append((time.perf_counter() - began) / count)
    return seconds


# lines of C


def items(text: str) -> Iterator[tuple[str, str]]:
    """Gives (name, text with its comment) for each function, struct and macro of a C source. The rest of the source belongs to no item."""
    block: list[str] = []
    lines, at = text.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        block = block if line.strip() else []
        if not line.strip():
            at += 1
            continue
        block.append(line)
        at += 1
        head = re.match(r"(?:static |INLINE |inline |void |float |vector |uint16_t |typedef |#define |mask |halves )", line)
        if not head or line.startswith("#if"):
            continue
        one = line.startswith("#define") or (line.rstrip().endswith((";", "}")) and not line.startswith("typedef struct {"))
        while not one and at < len(lines):
            block.append(lines[at])
            at += 1
            one = block[-1].startswith("}")
        whole = "\n".join(block)
        bare = re.sub(r" ?__attribute__\(\(.*?\)\)+", "", whole[whole.find(line) :])
        named = re.search(r"^\} (\w+);", whole, re.M) or re.search(r"#define (\w+)", whole) or re.search(r"(\w+)\(", bare)
        if named:
            yield named[1], whole
        block = []


def lines_of(folder: Path, names: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Returns, for each kernel with these functions, the lines that only this kernel uses, and the lines that it shares with other kernels."""
    known = {name: text for source in SOURCES for name, text in items((folder / source).read_text(encoding="utf-8"))}
    words = {name: _named(text) for name, text in known.items()}

    def used(start: Sequence[str]) -> set[str]:
        found, left = set(start), list(start)
        while left:
            more = (words[left.pop()] & set(known)) - found
            found |= more
            left += more
        return found

    sets = [used(chosen) for chosen in names]
    counts = {name: len(text.split("\n")) for name, text in known.items()}
    shared = [{n for n in one if sum(n in other for other in sets) > 1} for one in sets]
    return [(sum(counts[n] for n in one - both), sum(counts[n] for n in both)) for one, both in zip(sets, shared, strict=True)]


def _named(text: str) -> set[str]:
    """Returns the functions that a C text calls, and the types and macros that it names. Comments name nothing."""
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {*re.findall(r"\b(\w+)\(", bare), *re.findall(r"\b(\w+_t|[A-Z]+)\b", bare)}


# whole steps


class Without:
    """The library with some kernels replaced by PyTorch's operations on the same memory (float32)."""

    def __init__(self, library: Any, *names: str) -> None:
        self.library, self.names = library, names

    def __getattr__(self, name: str) -> Any:
        short = name.removeprefix("gradus_")
        return getattr(ways, f"{short}_at") if short in self.names else getattr(self.library, name)


@contextmanager
def without(kernel: str) -> Iterator[None]:
    """A context in which one kernel is replaced by PyTorch's operations in whole steps. "" replaces none."""
    library = kernels.kernels()
    with ExitStack() as stack:

        def put(target: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(target, name, value))

        if kernel in ("add_norm", "gated", "add_norm and gated"):
            put(compiled, "kernels", lambda: Without(library, *kernel.split(" and ")))
        elif kernel == "attend":
            put(engine, "fits", lambda fused: False)
        elif kernel == "norm":
            put(fused, "_CompiledNorm", ways.PlainNorm)
        elif kernel == "gate":
            put(fused, "_CompiledGate", ways.PlainGate)
        elif kernel == "packed_attention":
            put(pack, "compiled", lambda x: False)
        yield


def sampling(model: LanguageModel, shape: ways.Shape) -> Callable[[], object]:
    rng = np.random.default_rng(1)
    prompts = rng.integers(0, shape.vocabulary, (shape.rows // shape.shares, shape.prompt)).astype(np.int32).repeat(shape.shares, 0)
    jobs = [engine.Job(row, Sampling(max_tokens=32), Key(i).value) for i, row in enumerate(prompts)]
    return lambda: engine.generate(model.trunk, jobs, end_tokens=(), decode_text=str, max_context=model.context_length)


def updating(model: LanguageModel, shape: ways.Shape) -> Callable[[], object]:
    contexts = ways.contexts(shape)

    def update() -> None:
        model.network.zero_grad()
        model.evaluate(contexts, (LogProb(),))[LogProb()].mean().backward()

    return update


def steps(shape: ways.Shape, rounds: int) -> dict[str, Ratio]:
    """Returns, for each kernel, the time of a step without this kernel over the time with it."""
    model = LanguageModel(ways.decoder(shape, layers=4), None, ())
    found = {}
    for step, names in ((sampling(model, shape), ("add_norm", "gated", "add_norm and gated", "attend")), (updating(model, shape), ways.TRAINING)):
        seconds = measured({name: lambda name=name, step=step: _step(name, step) for name in ("", *names)}, rounds, 0.0)  # type: ignore[misc]
        found |= {name: ratio(seconds[name], seconds["add_norm and gated" if name == "attend" else ""]) for name in names}
    return found


def _step(kernel: str, step: Callable[[], object]) -> None:
    with without(kernel):
        step()


def row(kernel: ways.Kernel, lines: tuple[int, int], rounds: int, compile_too: bool, gain: Ratio | None) -> str:
    """Measures a kernel. Returns its line of the table."""
    kernel.check()
    sides: dict[str, Callable[[], object]] = {"kernel": kernel.ours, "plain": kernel.plain}
    if compile_too:
        torch._dynamo.reset()
        torch._inductor.config.compile_threads = 1  # in this process: the workers would take the cores from the measurement
        try:
            sides["compiled"] = kernel.compiled()
        except torch._dynamo.exc.BackendCompilerFailed as error:
            print(f"torch.compile failed for {kernel.name}: {str(error).splitlines()[1]}", file=sys.stderr)
    seconds = measured(sides, rounds)
    times = {name: f"{1e6 * float(np.median(seconds[name])):,.0f}" if name in seconds else "-" for name in ("kernel", "plain", "compiled")}
    over = {name: str(ratio(seconds[name], seconds["kernel"])) if name in seconds else "-" for name in ("plain", "compiled")}
    cells = (kernel.name, f"{lines[0]} + {lines[1]}", *times.values(), *over.values(), "-" if gain is None else str(gain))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--no-steps", action="store_true", help="leave the whole steps out")
    options = parser.parse_args()
    if kernels.kernels() is None:
        raise SystemExit(f"{kernels.MISSING}; {kernels.REMEDY}")
    torch.set_num_threads(options.threads)
    shape = ways.Shape(width=options.width)
    gains = {} if options.no_steps else steps(shape, options.rounds)
    made = ways.all_kernels(shape)
    counts = lines_of(Path(kernels.__file__).parent, [k.functions for k in made])
    print(f"{options.threads} threads, width {options.width}, kernels {kernels.generation()}, torch {torch.__version__}, {options.rounds} rounds\n")
    print("| kernel | lines of C | us, kernel | us, PyTorch | us, torch.compile | PyTorch / kernel | torch.compile / kernel | step without / with it |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kernel, lines in zip(made, counts, strict=True):
        print(row(kernel, lines, options.rounds, not options.no_compile, gains.get(kernel.name)), flush=True)


if __name__ == "__main__":
    main()
