"""The compiled kernels (*.c) of a decoding step and of the update. The kernels are used if they were built and this machine can run them.

The kernels are built for three generations of processors when Gradus is installed from source on a machine with a C compiler. The first use loads the
newest generation that the processor supports. Without the kernels, PyTorch's own operations are used, which are slower.
"""

from __future__ import annotations

import ctypes
import importlib.util
import zlib
from ctypes import POINTER, Structure, c_float, c_int, c_int64, c_uint32, c_void_p
from functools import lru_cache
from pathlib import Path

import torch

from gradus.types import UserError

MISSING = "the compiled kernels are missing, so training on the CPU takes about twice as long"
REMEDY = "install a C compiler (Debian: apt install gcc), then Gradus again, from a checkout or from its source distribution"
GENERATIONS = {"AVX512": ("v4", "v3", "base"), "AVX2": ("v3", "base")}  # the keys are PyTorch's names of CPU capabilities
WIDE, FOUR = 16, 4  # the same values as in rows.h


def whole(length: int) -> int:
    """Rounds a length up to a whole number of vectors, or a number of positions up to a whole number of blocks of keys."""
    return -(-length // WIDE) * WIDE


class LayerOf(Structure):
    """The struct `layer_t` of the kernels."""

    _fields_ = (
        *((name, c_int64) for name in ("heads", "kv_heads", "dim", "padded", "turned", "window")),
        *((name, c_float) for name in ("scale", "cap", "eps")),
        *((name, c_void_p) for name in ("bias", "q_norm", "k_norm", "turns", "keys", "values")),
        ("capacity", c_int64),
    )


class AttentionOf(Structure):
    """The struct `attention_t` of the kernels."""

    _fields_ = (
        *((name, c_int64) for name in ("heads", "kv_heads", "dim", "padded", "turned", "window", "q_stride", "k_stride", "v_stride")),
        *((name, c_float) for name in ("scale", "cap")),
        *((name, c_void_p) for name in ("q", "k", "v", "cosines", "sines")),
    )


class BackOf(Structure):
    """The struct `back_t` of the kernels."""

    _fields_ = tuple((name, c_void_p) for name in ("out", "logs", "grad", "to_q", "to_k", "to_v"))


@lru_cache
def kernels() -> ctypes.CDLL | None:
    """Loads the library. Returns None if no library was built for this machine. Raises: UserError if the library was built from other sources."""
    best = generation()
    if best is None:
        return None
    where = _file(best)
    assert where is not None
    return checked(ctypes.CDLL(where), where)


def generation() -> str | None:
    """Returns the newest built generation for this processor; None if there is no such generation."""
    return next((g for g in GENERATIONS.get(torch.backends.cpu.get_cpu_capability(), ("base",)) if _file(g) is not None), None)


def _file(generation: str) -> str | None:
    found = importlib.util.find_spec(f"{__name__}._{generation}")
    return None if found is None else found.origin


def checked(library: ctypes.CDLL, where: str) -> ctypes.CDLL:
    """Declares the functions of the library and returns the library. Raises: UserError if the library was built from other sources."""
    folder = Path(__file__).parent
    sources = sorted([*folder.glob("*.c"), *folder.glob("*.h")])  # empty in a package without its sources
    if sources and c_uint32.in_dll(library, "gradus_source").value != zlib.crc32(b"".join(s.read_bytes() for s in sources)):
        raise UserError(f"{where} was not built from the sources in {folder}; install Gradus again (`make install`, or pip install)")
    p, n, f, i = c_void_p, c_int64, c_float, c_int
    for name, arguments in {
        "add_norm": (p, p, p, p, p, p, n, n, f, i, i),
        "gated": (p, p, p, n, n, i, i, i),
        "attend": (POINTER(LayerOf), n, p, p, p, p, p, p, p, n, p, n, i, i),
        "norm": (p, p, p, p, n, n, f, i),
        "norm_back": (p, p, p, p, p, p, n, n, n, i),
        "gate": (p, p, p, n, i, i),
        "gate_back": (p, p, p, p, p, n, i, i),
        "packed_attention": (POINTER(AttentionOf), p, n, p, p, n, n, p, p, POINTER(BackOf), i),
    }.items():
        function = getattr(library, f"gradus_{name}")
        function.argtypes, function.restype = arguments, None
    return library
