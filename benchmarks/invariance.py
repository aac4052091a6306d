"""Test of every objective and average: gradients must not depend on the cut, order, packing or padding of a batch, or on the processes.

    python -m benchmarks.invariance [--splits 20] [--every 1]

Every policy term (each ratio with each trust region and each average), and every other term with each average: through the built-in decoder
and through transformers (padded on either side) over the splits, and by two processes (gloo). Prints the largest difference of any gradient
from that of the whole batch at once, as a share of its largest entry if that is above 1. Exit code 1 above 1e-10 (float64), 1e-5 (float32).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from gradus.testing.methods import toy_flow
from tests.invariance.flows import batch_for_flow
from tests.invariance.processes import batch, difference, led, players, two
from tests.invariance.splits import COUNT, LIMITS, Cut, gradient_of, recorded, spread, ways
from tests.parts import FLOWING, PAIRED, POLICIES, TERMS, name_of
from tests.reference.given import PAIRS, UNTIED

Found = tuple[str, torch.dtype, Any, float]


def over_splits(dtype: torch.dtype, splits: int, every: int) -> Iterator[Found]:
    for kind in ("decoder", "adapter"):
        for shape, terms in (("untied", [*POLICIES, *TERMS]), ("pairs", PAIRED)):
            for term in terms[::every]:
                yield kind, dtype, term, spread(recorded(kind, shape, dtype).gradients(term, range(splits)))
    policy = toy_flow(dtype)
    made = batch_for_flow(policy, UNTIED, dtype)
    cuts = [Cut(policy, made.contexts, way) for way in ways(splits, len(made.contexts))]
    for term in FLOWING[::every]:
        yield "flow", dtype, term, spread([gradient_of(cut, made, {"it": term}) for cut in cuts])


def over_processes(dtype: torch.dtype, crew: Any, folder: Path, every: int) -> Iterator[Found]:
    alone, together = players(folder, dtype), led(folder, dtype, crew)
    mixed, pairs = (batch(alone, shape, dtype) for shape in (UNTIED, PAIRS))
    for term in [*POLICIES, *TERMS, *PAIRED][::every]:
        off, largest = difference(alone, together, pairs if term in PAIRED else mixed, term)
        yield "two processes", dtype, term, off / max(1.0, largest)


def tell(found: Callable[[], Iterator[Found]]) -> bool:
    """Prints one line per way. Returns whether all are within their limits."""
    started, worst, count = time.perf_counter(), {}, {}
    for way, dtype, term, off in found():
        count[way, dtype] = count.get((way, dtype), 0) + 1
        if off >= worst.get((way, dtype), ("", -1.0))[1]:
            worst[way, dtype] = (name_of(term), off)
    for (way, dtype), (name, off) in worst.items():
        print(f"{way:<14} {dtype!s:<14} {count[way, dtype]:>4} objectives  largest difference {off:.2e}  ({name})", flush=True)
    print(f"{'':<14} {time.perf_counter() - started:.0f} s", flush=True)
    return all(off <= LIMITS[dtype] for (_, dtype), (_, off) in worst.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=COUNT, help=f"ways to cut, at most {COUNT}")
    parser.add_argument("--every", type=int, default=1, help="only every n-th objective")
    options = parser.parse_args()
    torch.set_num_threads(1)
    good = True
    with two() as crew, tempfile.TemporaryDirectory() as folder:
        for dtype in LIMITS:
            home = Path(folder) / str(dtype)
            good &= tell(lambda dtype=dtype, home=home: over_processes(dtype, crew, home, options.every))  # type: ignore[misc]
    for dtype in LIMITS:
        good &= tell(lambda dtype=dtype: over_splits(dtype, options.splits, options.every))  # type: ignore[misc]
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
