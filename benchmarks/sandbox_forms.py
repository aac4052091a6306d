"""The record of a hostile program, and the common forms of their sources."""

from __future__ import annotations

from dataclasses import dataclass

from gradus.sandbox import End

BOMB = frozenset({End.TIMEOUT, End.MEMORY, End.OUTPUT, End.DISK, End.SIGNAL, End.ERROR})
HELD = frozenset({End.OK, *BOMB})
TOO_MANY = 64  # processes at one time, above every limit of the benchmark
TOO_MUCH = 1 << 30  # bytes of memory, above every limit of the benchmark


@dataclass(frozen=True)
class Hostile:
    """A hostile program. `speaks`: it lives to print "held"; else it ends in one of `ends`. `before`: a program of an earlier run."""

    kind: str
    name: str
    source: str
    speaks: bool = True
    ends: frozenset[End] = HELD
    before: str = ""


def attempt(lines: str, escaped: str = "True") -> str:
    """A program that tries `lines`; it has escaped if they raise no error and `escaped` is true."""
    body = "\n".join("    " + line for line in lines.strip("\n").split("\n"))
    tail = f'    print("ESCAPED" if ({escaped}) else "held", flush=True)'
    return f'import os, sys, ctypes\ntry:\n{body}\n{tail}\nexcept BaseException as error:\n    print("held", type(error).__name__, error, flush=True)\n'


CALL = """
import platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(numbers, *arguments):
    number = numbers[0 if platform.machine() == "x86_64" else 1]
    if number is None:
        raise OSError("no such call on this machine")
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""


def kernel(numbers: str, arguments: str = "", escaped: str = "True") -> str:
    return attempt(f"{CALL.strip()}\ngot = call({numbers}{', ' + arguments if arguments else ''})", escaped)
