"""Runs a function in a forked process and watches its calls to the kernel: the k-th call that touches a disk can be made its last, or fail."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass

TRACEME, POKEUSER, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 6, 24, 0x4200, 0x420E
SYSGOOD, EXITKILL = 1, 0x100000
RAX, ORIG_RAX = 80, 120  # where the registers stand in the user area of x86-64
ENTRY = 1
CREATES = os.O_CREAT

NEEDS_SPACE = {1: "write", 18: "pwrite", 20: "writev", 40: "sendfile", 77: "ftruncate", 83: "mkdir", 88: "symlink", 258: "mkdirat",
               266: "symlinkat", 285: "fallocate", 326: "copy_file_range"}  # fmt: skip
OPENS = {2: "open", 257: "openat"}
OTHERS = {74: "fsync", 75: "fdatasync", 82: "rename", 84: "rmdir", 87: "unlink", 263: "unlinkat", 264: "renameat", 316: "renameat2"}


@dataclass(frozen=True)
class Fault:
    """What happens at the `at`-th call, counted from 0: the process is killed (`error` 0), or it and all later ones of its kind fail.

    `all_calls`: not only those that need space fail, but every one that changes anything: the disk is read-only.
    """

    at: int
    error: int = 0
    all_calls: bool = False


def possible() -> str:
    """Why calls cannot be watched here; '' where they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "calls to the kernel are counted on Linux on x86-64 only"
    try:
        _, code = traced(lambda: os.close(os.open(os.devnull, os.O_WRONLY)))
    except OSError as error:
        return f"processes may not be traced here: {error.strerror}"
    return "" if code == 0 else f"processes may not be traced here: the traced one ended with {code}"


def traced(function: Callable[[], object], fault: Fault | None = None) -> tuple[list[str], int]:
    """The names of the calls that would change a disk, in order, and how the process ended: its exit code, or less than 0 for a signal.

    The process ends with what the function returns, as a number, or with 99 where it raises. Raises OSError where tracing is not allowed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            libc.ptrace(TRACEME, 0, None, None)
            os.kill(os.getpid(), signal.SIGSTOP)
            code = int(function() or 0)  # type: ignore[call-overload]
        finally:
            os._exit(code)
    try:
        return _watch(libc, pid, fault)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _watch(libc: ctypes.CDLL, pid: int, fault: Fault | None) -> tuple[list[str], int]:
    def ptrace(request: int, address: int = 0, data: object = 0) -> None:
        if libc.ptrace(request, pid, address, data) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    calls: list[str] = []
    failing, passed_on = False, 0
    info = ctypes.create_string_buffer(96)
    os.waitpid(pid, 0)
    ptrace(SETOPTIONS, 0, SYSGOOD | EXITKILL)
    while True:
        ptrace(SYSCALL, 0, passed_on)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return calls, os.waitstatus_to_exitcode(status)
        passed_on = 0
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            passed_on = os.WSTOPSIG(status)
            continue
        ptrace(GET_SYSCALL_INFO, len(info), ctypes.addressof(info))
        operation, number, *arguments = info[0][0], *struct.unpack_from("<QQQQ", info.raw, 24)
        if operation != ENTRY:
            if failing:
                assert fault is not None
                ptrace(POKEUSER, RAX, (-fault.error) & (1 << 64) - 1)
                failing = False
            continue
        name, needs_space = _disk_call(number, arguments)
        if name is None:
            continue
        calls.append(name)
        if fault is None or len(calls) <= fault.at:
            continue
        if not fault.error:
            os.kill(pid, signal.SIGKILL)
            return calls, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if needs_space or fault.all_calls:
            failing = True
            ptrace(POKEUSER, ORIG_RAX, (1 << 64) - 1)  # no such call: it does nothing


def _disk_call(number: int, arguments: list[int]) -> tuple[str | None, bool]:
    """The name of a call that changes a disk, and whether it takes space there; None for any other."""
    if number in OPENS:
        creates = arguments[2 if OPENS[number] == "openat" else 1] & CREATES
        return (OPENS[number], True) if creates else (None, False)
    return (NEEDS_SPACE[number], True) if number in NEEDS_SPACE else (OTHERS.get(number), False)
