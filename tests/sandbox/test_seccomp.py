"""The filter of kernel calls, run instruction by instruction as the kernel would, against the kernel's own headers."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from gradus.sandbox.seccomp import ALLOW, ALLOWED, FAIL, KILL, MACHINES, NAMESPACES, PRETEND, PRETENDED, REFUSED, filter_for

HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
EPERM, ENOSYS = FAIL | errno.EPERM, FAIL | errno.ENOSYS


def verdict(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """What a classic BPF filter returns for a call; only the instructions that it may hold."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *arguments, *(0 for _ in range(6 - len(arguments))))
    steps = list(struct.iter_unpack("=HBBI", code))
    loaded, at = 0, 0
    while True:
        kind, yes, no, value = steps[at]
        at += 1
        if kind == 0x20:  # load 32 bits
            (loaded,) = struct.unpack_from("=I", data, value)
        elif kind in (0x15, 0x35, 0x45):  # jump if equal, if not below, if any bit
            true = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[kind]
            at += yes if true else no
        elif kind == 0x06:
            return value
        else:
            raise AssertionError(f"instruction {kind:#x}")


def named(table: str) -> dict[str, tuple[str, str]]:
    rows = [line for line in table.splitlines() if "#" not in line]
    return {e.split()[0]: tuple(e.split()[1:]) for line in rows for e in line.split(";") if e.strip()}


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_the_numbers_are_those_of_the_kernels_headers(machine, column):
    path = Path(HEADERS[machine])
    if not path.exists():
        pytest.skip(f"the kernel's headers are not installed ({path})")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
    known.setdefault("newfstatat", known.get("fstatat"))
    ours = {**named(ALLOWED), **named(PRETENDED), **named(REFUSED)}
    assert len(ours) > 200
    older = {name for name, numbers in ours.items() if numbers[column] != "-" and name not in known}
    assert len(older) <= 8  # headers older than a call
    wrong = {name for name, numbers in ours.items() if name in known and numbers[column] != known[name]}
    assert not wrong


@pytest.mark.parametrize("machine", list(MACHINES))
def test_what_is_allowed_refused_and_unknown(machine):
    code, (audit, column) = filter_for(machine), MACHINES[machine]
    for table, expected in ((ALLOWED, ALLOW), (PRETENDED, PRETEND), (REFUSED, EPERM)):
        for name, numbers in named(table).items():
            if numbers[column] != "-":
                assert verdict(code, audit, int(numbers[column])) == expected, name
    for number in (425, 435, 319 if machine == "x86_64" else 279, 9999):  # io_uring_setup, clone3, memfd_create, one that nobody knows
        assert verdict(code, audit, number) == ENOSYS
    assert len(code) % 8 == 0
    assert len(code) // 8 <= 4096  # the most that the kernel takes


@pytest.mark.parametrize(
    ("numbers", "arguments", "expected"),
    [
        ((56, 220), (0x01200011,), ALLOW),  # clone as fork() calls it
        ((56, 220), (0x10000000,), EPERM),  # CLONE_NEWUSER
        ((56, 220), (0x00020000 | 17,), EPERM),  # CLONE_NEWNS
        ((157, 167), (15,), ALLOW),  # PR_SET_NAME
        ((157, 167), (22,), EPERM),  # PR_SET_SECCOMP
        ((16, 29), (0, 0x5401), ALLOW),  # isatty
        ((16, 29), (0, 0x5412), EPERM),  # TIOCSTI: typing into somebody's terminal
        ((16, 29), (0, 0x1_0000_5401), ALLOW),  # the kernel reads 32 bits of a request as well
        ((53, 199), (1,), ALLOW),
        ((53, 199), (2,), EPERM),  # AF_INET
        ((302, 261), (0, 7), ALLOW),  # limits of its own
        ((302, 261), (1, 7), EPERM),
        ((72, 25), (3, 1030), ALLOW),  # a copy of a descriptor
        ((72, 25), (3, 6), PRETEND),  # F_SETLK
        ((72, 25), (3, 5), ALLOW),  # F_GETLK
        ((72, 25), (3, 37), PRETEND),  # F_OFD_SETLK
        ((72, 25), (3, 0x1_0000_0006), PRETEND),
        ((72, 25), (3, 1024), EPERM),  # a lease holds up a writer outside
        ((72, 25), (3, 1026), EPERM),  # the notice that another program reads a folder
        ((327, 286), (3, 0, 1, 0, 0, 0), ALLOW),
        ((327, 286), (3, 0, 1, 0, 0, 8), EPERM),  # RWF_NOWAIT
        ((28, 233), (0, 4096, 4), ALLOW),  # MADV_DONTNEED
        ((28, 233), (0, 4096, 21), EPERM),  # MADV_PAGEOUT
        ((27, 232), (0, 4096, 0), ENOSYS),  # mincore
    ],
)
def test_calls_that_depend_on_an_argument(numbers, arguments, expected):
    for machine, (audit, column) in MACHINES.items():
        assert verdict(filter_for(machine), audit, numbers[column], *arguments) == expected


def test_other_numberings():
    audit = MACHINES["x86_64"][0]
    code = filter_for("x86_64")
    assert verdict(code, 0x40000003, 20) == KILL  # 32-bit calls (int 0x80): 20 is getpid there, writev here
    assert verdict(code, audit, 0x40000000) == ENOSYS  # x32
    assert verdict(code, audit, 0xFFFFFFFF) == ENOSYS
    assert NAMESPACES == 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
