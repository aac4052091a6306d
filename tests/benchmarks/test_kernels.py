"""The table of the kernels: lines of C, ratios, and ways that compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import kernel_ways as ways
from benchmarks.kernels import items, lines_of, measured, ratio, sampling, updating, without
from gradus.policies import kernels
from gradus.policies.lm import LanguageModel

SMALL = ways.Shape(width=64, vocabulary=50, rows=32, shares=8, prompt=20, own=32, prompts=2, answers=3, length=5)
SOURCE = """/* Not counted. */

#define FOUR 4 /* one line */

/* Its comment. */
typedef struct {
    int n;
} size_t_;

static inline __attribute__((always_inline)) float low(float x) { return x * FOUR; }

/* gradus_b() in a comment is no call. */
void gradus_a(float *x) {
    x[0] = low(x[0]);
}

void gradus_b(float *x) {
    float low = high(x[0]); /* a variable is no call */
}

static float high(float x) {
    return FOUR;
}
"""


def test_lines_of_c(tmp_path: Path) -> None:
    assert [name for name, _ in items(SOURCE)] == ["FOUR", "size_t_", "low", "gradus_a", "gradus_b", "high"]
    for name in ("decoding.c", "training.c", "rows.h"):
        (tmp_path / name).write_text(SOURCE if name == "decoding.c" else "")
    assert lines_of(tmp_path, [("gradus_a",), ("gradus_b",)]) == [(5, 1), (6, 1)]


def test_every_function_of_the_library_is_in_the_table() -> None:
    folder = Path(kernels.__file__).parent
    every = {name for source in folder.glob("*.c") for name, _ in items(source.read_text()) if name.startswith("gradus_") and name != "gradus_source"}
    if kernels.kernels() is None:
        pytest.skip("no kernels")
    assert every == {f for kernel in ways.all_kernels(SMALL) for f in kernel.functions}


def test_ratios_and_turns() -> None:
    assert str(ratio([4.0, 9.0], [2.0, 2.0])).startswith("3.00 (")
    assert str(ratio([3.0], [2.0])) == "1.50"
    told: list[str] = []
    seconds = measured({name: lambda name=name: told.append(name) for name in "abc"}, 4, 0.0)  # type: ignore[misc]
    assert {name: len(found) for name, found in seconds.items()} == {"a": 4, "b": 4, "c": 4}
    assert "".join(told) == "aabbcc" + "abc" + "acb" + "cab" + "cba"


@pytest.mark.parametrize("number", range(6))
def test_the_ways_compute_the_same(number: int) -> None:
    if kernels.kernels() is None:
        pytest.skip("no kernels")
    kernel = ways.all_kernels(SMALL)[number]
    kernel.check()
    found = ways.evaluated(kernel.formula, kernel.inputs(), kernel.backward)  # of torch.compile, not compiled
    if kernel.name != "add_norm":  # its input has moved on
        ways._alike(found, kernel.plain(), kernel.near)


@pytest.mark.parametrize("kernel", ways.TRAINING)
def test_a_step_without_a_kernel_has_the_same_gradient(kernel: str) -> None:
    if kernels.kernels() is None:
        pytest.skip("no kernels")
    model = LanguageModel(ways.decoder(SMALL, 2), None, ())
    step, gradients = updating(model, SMALL), []
    for name in ("", kernel):
        with without(name):
            step()
        gradients.append([p.grad.clone() for p in model.network.parameters() if p.grad is not None])
    assert not all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))  # the other way was used
    ways._alike(*gradients, 1e-5)


@pytest.mark.parametrize("kernel", ["add_norm", "gated", "add_norm and gated", "attend"])
def test_an_answer_without_a_kernel_has_the_same_chances(kernel: str) -> None:
    if kernels.kernels() is None:
        pytest.skip("no kernels")
    step, chances = sampling(LanguageModel(ways.decoder(SMALL, 2), None, ()), SMALL), []
    for name in ("", kernel):
        with without(name):
            chances.append(torch.from_numpy(np.stack([s.logprobs for s in step()])))  # type: ignore[attr-defined]
    ways._alike(chances[:1], chances[1:], 1e-4)
