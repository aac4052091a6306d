"""Memory of a device: its free bytes, a limit for this process, and a way to split work into smaller parts when memory runs out."""

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
SHARE = 0.95  # the default limit of a run, as a share of the memory that is free at its start
REMEDIES = (
    "a smaller --max_tokens, a smaller model, --players.policy.model Adapter, for a language model --backward_chunks 8, on a GPU --precision bfloat16, with "
    "--system Streaming fewer --system.workers"
)
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of two options of mallopt, from malloc.h
_SIGNS = (  # messages of C libraries when an allocation fails
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
    "bad_alloc",
    "could not create a memory object",
    "could not create a primitive",
    "could not execute a primitive",
    "can't start new thread",
)


def free_memory(device: torch.device | str = "cpu") -> int | None:
    """Returns the bytes that this process can still take on a device, within its own limit and its container's limit.

    Returns None if the system does not report this number.
    """
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
    """Lets this process keep freed memory for reuse: up to 1 GiB, in blocks of up to 256 MiB. Only glibc has this setting.

    By default, the C library returns large blocks to the operating system and requests them again at every step. The system then fills each page with zeros.
    In a
    measurement with 13,000 tokens and a width of 256, this work took a sixth of the time of an update.
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
    """Returns the bytes that a line of /proc/self/status reports; None if the line is missing."""
    found = re.search(rf"^{name}:\s+(\d+) kB", _read(STATUS), re.M)
    return int(found[1]) * 1024 if found else None


def _left_of_limit() -> int | None:
    """Returns the bytes of private memory that this process can take before it reaches its limit.

    Returns None if there is no limit, or if the system does not report the number.
    """
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    data = status("VmData")
    return None if soft == resource.RLIM_INFINITY or data is None else max(0, soft - data)


@contextmanager
def limited(size: int | None, device: torch.device | str = "cpu") -> Iterator[int | None]:
    """A context in which this process takes at most `size` bytes of the device's memory. A larger allocation raises an error.

    If `size` is None, the limit on the CPU is a share of the free memory, and CUDA has no limit. Yields the limit in bytes; None if there is no limit. On the
    CPU, the limit is computed only once and only for this process. If other programs take memory later, the limit does not change. The limit counts private
    memory (RLIMIT_DATA). Private memory is all memory that the process requested and did not return, even if the process does not use it. Raises: UserError
    if `size` is below the memory that is already in use, or above the device's memory.
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
            raise UserError("--memory needs a system that limits the memory of a process (Linux), or a CUDA device; leave --memory out")
        yield None
        return
    if size is not None and size <= data:
        raise UserError(f"--memory is {size / 1e6:,.0f} MB, but {data / 1e6:,.0f} MB are in use before the first step; give a larger --memory")
    limit = size if size is not None else data + int(SHARE * (free or 0))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *(end for end in before if end != resource.RLIM_INFINITY)]), before[1]))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def _cuda_limit(size: int | None, device: torch.device) -> Iterator[None]:
    if size is None:  # without a limit, CUDA itself raises an error if memory runs out
        yield
        return
    total = torch.cuda.get_device_properties(device).total_memory
    if size > total:
        raise UserError(f"--memory is {size / 1e9:.1f} GB, but {device} has {total / 1e9:.1f} GB; give at most this size")
    torch.cuda.set_per_process_memory_fraction(size / total, device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of PyTorch, NumPy, Arrow or Python means that memory ran out, on the CPU or a GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def attempt(work: Callable[[], T]) -> tuple[T | None, str | None]:
    """Returns (result, None), or (None, message) if memory ran out. The memory of a failed attempt is freed."""
    try:
        return work(), None
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
    # this line is after the except block: within the block, the error keeps the frames of the failed attempt alive, with their tensors
    release()
    return None, said


def release() -> None:
    """Returns freed memory to the system, or to the device."""
    gc.collect()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # a C library without this function
        return


class Record(Protocol):
    """Stores the number of tokens per purpose, and the sizes of the parts into which work was split. The `World` of a run is such a store.

    With these sizes, a repeated step splits its work in the same way.
    """

    def call(self, name: str) -> str: ...
    def fact(self, call: str) -> str | None: ...
    def decide(self, call: str, reason: str) -> None: ...
    def count(self, purpose: str, player: str, tokens: int) -> None: ...


def fitting(player: Any, contexts: Sequence[Context], work: Callable[[int], T], record: Record | None) -> T:
    """Returns work(tokens per micro-batch).

    If memory runs out, tries again with fewer tokens. The player keeps the smaller number.

    If the number changes, it is stored with the step. The result of `work` must not depend on the number, and each call of `work` must start from the
    beginning.
    Raises: UserError if memory runs out with one sequence per micro-batch.
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
    """Halves the number of tokens until there are more micro-batches. Raises UserError if more micro-batches are not possible."""
    now = player.policy.micro_batches(contexts, tokens)
    smaller = tokens // 2
    while smaller >= 1 and len(player.policy.micro_batches(contexts, smaller)) <= len(now):
        smaller //= 2
    if smaller < 1:
        longest = max((len(c.sequence) for c in contexts), default=0)
        raise UserError(
            f"memory ran out for {player.name} even with one sequence at a time; the longest sequence has {longest} tokens ({said}). Remedies: "
            f"{REMEDIES}, or a larger --memory"
        )
    return smaller


def in_parts(items: Sequence[Any], work: Callable[[Sequence[Any]], Sequence[T]], most: int | None, what: str) -> tuple[list[T], int | None]:
    """Calls `work` with at most `most` items at a time (None: all items). If memory runs out, `most` is halved. Returns (results, most).

    Raises: UserError if memory runs out for one item.
    """
    done: list[T] = []
    while len(done) < len(items):
        part = items[len(done) : len(done) + (most or len(items))]
        found, said = attempt(lambda part=part: work(part))  # type: ignore[misc]
        if found is not None:
            done += [made for made, _ in zip(found, part, strict=True)]  # strict, because with too few results the loop would never end
        elif len(part) == 1:
            raise UserError(f"memory ran out for one {what} ({said}). Remedies: {REMEDIES}, or a larger --memory")
        else:
            most = len(part) // 2
    return done, most
