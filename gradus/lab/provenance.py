"""The provenance of a run: versions, hashes of the files that the run read, the machine and the command.

The provenance contains no environment variables.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gradus import __version__
from gradus.lab.checkpoints import digest
from gradus.runtime.cores import usable_cores

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pyarrow", "sympy")
TASKS = ("reasoning-gym", "gymnasium", "gem-llm")  # packages whose tasks a run may use


def describe(
    *, data: Iterable[Path] = (), model: Path | None = None, code: Iterable[Path] = (), command: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the provenance of a run at its start.

    Args: `data`, `code`: the files that the run read. `model`: a file, or a model's folder (all its files except hidden ones are hashed). `command`: the
    words that the user typed.
    """
    files = sorted(p for p in model.rglob("*") if p.is_file() and not p.name.startswith(".")) if model and model.is_dir() else [model]
    return {
        "command": list(command),
        "started": now(),
        "versions": versions(),
        "data": fingerprints(data),
        "model": fingerprints(path for path in files if path is not None),
        "code": fingerprints(code),
        "machine": machine(),
    }


def now() -> str:
    """Returns the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that influence a run's numbers, and a hash of this package's source."""
    found = {"python": platform.python_version(), "source": source(), "gradus": __version__}
    for name in (*PACKAGES, *TASKS):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def source() -> str:
    """Returns the first 16 digits of SHA-256 over the Python files of this package (paths and contents).

    A checkout and the package that is built from it have the same 16 digits.
    """
    root = Path(__file__).parent.parent
    total = hashlib.sha256()
    for path in sorted(set(root.rglob("*.py")) - {root / "_version.py"}):
        total.update(f"{path.relative_to(root)} {digest(path)}\n".encode())
    return total.hexdigest()[:16]


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Returns a sentence about versions that changed since a run began; '' if no version changed."""
    names = {"source": "the source of gradus"}
    found = [names.get(n) or f"{n} ({before[n]} to {after.get(n, 'none')})" for n in before if before[n] != after.get(n)]
    return f"since the run began, {', '.join(found)} changed: repeated steps may differ in their last bits" if found else ""


def fingerprints(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Returns a mapping from path to the size in bytes and the SHA-256 of every file."""
    return {str(path): {"bytes": path.stat().st_size, "sha256": digest(path)} for path in paths}


def machine() -> dict[str, Any]:
    """Returns the system, the processor, the cores and the memory in GiB.

    If PyTorch is loaded, also returns its threads and CUDA devices.
    """
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": usable_cores(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    torch = sys.modules.get("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        found["accelerators"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())
