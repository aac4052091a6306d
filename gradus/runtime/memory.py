"""How much memory a device has to spare, a limit on what this process takes of it, and work that is done in smaller parts where it runs out."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from gradus.types import Context, UserError

T = TypeVar("T")

MEMINFO = Path("/proc/meminfo")
STATUS = Path("/proc/self/status")
CGROUP = Path("/sys/fs/cgroup")
SHARE = 0.95  # of what is free when a run starts: its limit where none is named
REMEDIES = (
    "lower --max_tokens, use a smaller model, or --players.policy.model Adapter; for a language model --recompute true, "
    "and --precision bfloat16 on a GPU, need less too"
)
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in malloc.h
_SIGNS = (  # what libraries below Python say when an allocation is refused
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
    "bad_alloc",
    "could not create a memory object",
    "could not create a primitive",
    "could not execute a primitive",
)


def free_memory(device: torch.device | str = "cpu") -> int | None:
    """Bytes that can still be taken on a device, within the limits of this process and its container; None where the system does not say."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(MEMINFO), re.M) if device.type == "cpu" else None
    if found is None:
        return None
    limit, used = (_read(CGROUP / name).strip() for name in ("memory.max", "memory.current"))
    contained = int(limit) - int(used) if limit.isdigit() and used.isdigit() else None
    return max(0, min(left for left in (int(found[1]) * 1024, contained, _left_of_limit()) if left is not None))


def keep_freed_memory() -> None:
    """What this process frees stays with it, to be taken again, up to a gigabyte, and in pieces of up to a quarter of one; glibc only.

    By itself the C library gives large pieces back to the system and asks for them again at every step, and the system fills each page with
    zeros: measured as a sixth of an update's time at 13,000 tokens and a width of 256.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 28)
        mallopt(_TRIM_THRESHOLD, 1 << 30)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def status(name: str) -> int | None:
    """Bytes of a line of /proc/self/status; None where there is none."""
    found = re.search(rf"^{name}:\s+(\d+) kB", _read(STATUS), re.M)
    return int(found[1]) * 1024 if found else None


def _left_of_limit() -> int | None:
    """Bytes of private memory that the limit of this process leaves; None: it has none, or the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    data = status("VmData")
    return None if soft == resource.RLIM_INFINITY or data is None else max(0, soft - data)


@contextmanager
def limited(size: int | None, device: torch.device | str = "cpu") -> Iterator[int | None]:
    """Within it this process takes at most `size` bytes of the device's memory (None: a share of what is free now): beyond that PyTorch raises.

    Gives the limit in bytes, None where there is none. On the CPU what other programs take later is not known: the limit is that of one process.
    It limits private memory (RLIMIT_DATA), which counts all that was asked for, touched or not, and was not given back.
    Raises: UserError for a size below what the process has in use already, or above the device's memory.
    """
    device = torch.device(device)
    if device.type == "cuda":
        with _cuda_limit(size, device):
            yield size
        return
    data, free = status("VmData"), free_memory()
    try:
        import resource
    except ImportError:
        data = None
    if device.type != "cpu" or data is None or (size is None and free is None):
        if size is not None:
            raise UserError("--memory needs a system that limits the memory of a process (Linux), or a CUDA device; leave it out here")
        yield None
        return
    if size is not None and size <= data:
        raise UserError(f"--memory is {size / 1e6:,.0f} MB, but {data / 1e6:,.0f} MB are in use before the first step; allow more")
    limit = size if size is not None else data + int(SHARE * (free or 0))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *(end for end in before if end != resource.RLIM_INFINITY)]), before[1]))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def _cuda_limit(size: int | None, device: torch.device) -> Iterator[None]:
    if size is None:  # CUDA raises by itself
        yield
        return
    total = torch.cuda.get_device_properties(device).total_memory
    if size > total:
        raise UserError(f"--memory is {size / 1e9:.1f} GB, but {device} has {total / 1e9:.1f} GB; give at most that")
    torch.cuda.set_per_process_memory_fraction(size / total, device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: of PyTorch, NumPy, Arrow or Python, on the CPU or a GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def attempt(work: Callable[[], T]) -> tuple[T | None, str | None]:
    """(what the work gives, None), or (None, what was said) where memory ran out. What a failed attempt held is given back."""
    try:
        return work(), None
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
    # only here have the frames of the failed attempt, and their tensors, gone with the error
    release()
    return None, said


def release() -> None:
    """Gives back to the system, or to the device, what was freed."""
    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # a C library that has no such function
        return


class Record(Protocol):
    """Where it is written down how work was split, so that a step which is done again is split alike. A run's world is one."""

    def call(self, name: str) -> str: ...
    def fact(self, call: str) -> str | None: ...
    def decide(self, call: str, reason: str) -> None: ...


def fitting(player: Any, contexts: Sequence[Context], work: Callable[[int], T], record: Record | None) -> T:
    """work(tokens of a micro-batch), done again with fewer each time that memory runs out; the player keeps the smaller number from then on.

    The number is a fact of the step where it changed. The work must come to the same with any number, and begin anew each time.
    Raises: UserError where every micro-batch holds one sequence already.
    """
    call = record.call(f"micro/{player.name}") if record is not None else ""
    known = record.fact(call) if record is not None else None
    tokens = player.micro_tokens if known is None else int(known)
    while True:
        found, said = attempt(lambda tokens=tokens: work(tokens))  # type: ignore[misc]
        if said is None:
            break
        tokens = _smaller(player, contexts, tokens, said)
    if record is not None and tokens != player.micro_tokens and known != str(tokens):
        record.decide(call, str(tokens))
    player.micro_tokens = tokens
    return found  # type: ignore[return-value]


def _smaller(player: Any, contexts: Sequence[Context], tokens: int, said: str) -> int:
    """Half as many tokens, or as often halved as it takes for more micro-batches."""
    now = player.policy.micro_batches(contexts, tokens)
    smaller = tokens // 2
    while smaller >= 1 and len(player.policy.micro_batches(contexts, smaller)) <= len(now):
        smaller //= 2
    if smaller < 1:
        longest = max((len(c.sequence) for c in contexts), default=0)
        raise UserError(
            f"memory ran out for {player.name} with one sequence at a time, the longest of {longest} tokens ({said}): {REMEDIES}; "
            "or allow more with --memory"
        )
    return smaller


def in_parts(items: Sequence[Any], work: Callable[[Sequence[Any]], Sequence[T]], most: int | None, what: str) -> tuple[list[T], int | None]:
    """work(items), at most `most` at a time (None: all), and half as many each time that memory runs out; and how many that came to.

    Raises: UserError where one item is too many.
    """
    done: list[T] = []
    while len(done) < len(items):
        part = items[len(done) : len(done) + (most or len(items))]
        found, said = attempt(lambda part=part: work(part))  # type: ignore[misc]
        if found is not None:
            done += [made for made, _ in zip(found, part, strict=True)]  # too few would be asked for again for ever
        elif len(part) == 1:
            raise UserError(f"memory ran out for one {what} ({said}): {REMEDIES}; or allow more with --memory")
        else:
            most = len(part) // 2
    return done, most
