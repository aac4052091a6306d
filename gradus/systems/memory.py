"""How much memory a device has to spare, as measured when asked."""

from __future__ import annotations

import re
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device | str = "cpu") -> int | None:
    """Bytes that can still be taken on a device, within the limit of this process's container; None where the system does not say."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(MEMINFO), re.M) if device.type == "cpu" else None
    if found is None:
        return None
    limit, used = (_read(CGROUP / name).strip() for name in ("memory.max", "memory.current"))
    left = int(limit) - int(used) if limit.isdigit() and used.isdigit() else None
    return int(found[1]) * 1024 if left is None else max(0, min(int(found[1]) * 1024, left))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
