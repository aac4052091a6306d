"""The matrix products of decoding and update against every library on this machine: billions of operations per second.

    python -m benchmarks.products [--threads 2]

Forward x W^T, backward to the rows dY W, backward to the weight dY^T x, and the blocks of decoding. "ours" is `gradus.policies.products`; MKL is PyTorch's own
product, OpenBLAS that of NumPy, oneDNN a weight that was brought into its order in advance. The libraries take turns; each figure is the best of seven rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.products import Matrix, linear, weight_gradient

SHAPES = ((256, 256), (256, 1024), (1024, 256), (512, 2048))
ROUNDS = 7


def sides(kind: str, x: Tensor, weight: Tensor, grad: Tensor) -> Mapping[str, Callable[[], object]]:
    """The same product by every library."""
    numpy = x.dtype == torch.float32
    a, w, g = (t.numpy() if numpy else np.zeros(1) for t in (x, weight, grad))
    if kind == "decode":
        ready = Matrix(weight.t())
        both = {"ours": lambda: x @ ready, "MKL": lambda: F.linear(x, weight), "OpenBLAS": lambda: a @ w.T}
    elif kind == "forward":
        ready = Matrix(weight.t())
        both = {"ours": lambda: linear(x, weight), "MKL": lambda: F.linear(x, weight), "OpenBLAS": lambda: a @ w.T, "oneDNN": lambda: x @ ready}
    elif kind == "to rows":
        ready = Matrix(weight)
        both = {"ours": lambda: linear(grad, weight.t()), "MKL": lambda: grad @ weight, "OpenBLAS": lambda: g @ w, "oneDNN": lambda: grad @ ready}
    else:
        both = {"ours": lambda: weight_gradient(grad, x), "MKL": lambda: grad.t() @ x, "OpenBLAS": lambda: g.T @ a}
    return {name: made for name, made in both.items() if numpy or name != "OpenBLAS"}


def seconds(of: Mapping[str, Callable[[], object]], operations: float) -> dict[str, float]:
    """The best time of each side, in alternating rounds of about 20 ms."""
    count = max(1, int(2e9 / operations))
    best = dict.fromkeys(of, float("inf"))
    for _ in range(ROUNDS):
        for name, make in of.items():
            make()
            began = time.perf_counter()
            for _ in range(count):
                make()
            best[name] = min(best[name], (time.perf_counter() - began) / count)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("type      product    rows  in x out      ours     MKL  OpenBLAS  oneDNN   ours / fastest (time)")
    worst: dict[tuple[str, str], list[float]] = {}
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            for kind, counts in {"decode": (64, 256), "forward": (2048, 4096), "to rows": (2048, 4096), "to weight": (2048, 4096)}.items():
                for rows in counts:
                    for inner, outer in SHAPES:
                        x, weight, grad = (torch.randn(shape).to(dtype) for shape in ((rows, inner), (outer, inner), (rows, outer)))
                        operations = 2.0 * rows * inner * outer
                        best = seconds(sides(kind, x, weight, grad), operations)
                        ratio = best["ours"] / min(best.values())
                        name = str(dtype).removeprefix("torch.")
                        worst.setdefault((name, kind), []).append(ratio)
                        speeds = [f"{operations / best[n] / 1e9:8.0f}" if n in best else "       -" for n in ("ours", "MKL", "OpenBLAS", "oneDNN")]
                        print(f"{name:9} {kind:9} {rows:5}  {inner:4} x {outer:4} {''.join(speeds)}   {ratio:.2f}", flush=True)
    for (name, kind), ratios in worst.items():
        print(f"{name} {kind}: geometric mean {np.exp(np.log(ratios).mean()):.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
