"""`gradus doctor`: the machine, the installed packages, and warnings about anything that would slow down or stop a run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradus.runtime.cores import usable_cores
from gradus.runtime.tables import outline
from gradus.runtime.terminal import paint, paragraph

GB = 1e9
ENOUGH_DISK, ENOUGH_MEMORY = 5 * GB, 2 * GB  # bytes below which a run is likely to end early

FOR_DEVELOPERS = ("dev", "docs", "bench", "benchmarks", "engines")  # extras that a user does not need
PURPOSE: Mapping[str, str] = {
    "bm25s": "the search of the tasks search_qa and research",
    "datasets": "--task OWNER/NAME, and saved data sets",
    "duckdb": "the engine duckdb of the tool Sql",
    "httpx": "--judge URL",
    "peft": "checks that saved adapters load elsewhere",
    "pillow": "pictures of data files",
    "gymnasium": "tasks gymnasium:ID",
    "reasoning-gym": "tasks reasoning_gym:NAME",
    "gem-llm": "tasks gem:GAME",
    "textarena": "tasks textarena:GAME",
    "verifiers": "tasks verifiers:NAME",
    "uvicorn": "gradus serve",
    "simpy": "gradus simulate",
    "mcp": "tools of MCP servers",
    "math-verify": "a second opinion on mathematical answers",
    "playwright": "the test of the report in a browser",
    "tensorboard": "metrics on TensorBoard",
    "prometheus-client": "metrics for Prometheus",
    "opentelemetry-sdk": "metrics for OpenTelemetry",
    "opentelemetry-exporter-otlp-proto-http": "metrics for OpenTelemetry",
    "trackio": "metrics on trackio",
    "wandb": "metrics on Weights & Biases",
    "vllm": "sampling on a GPU by vLLM",
    "bitsandbytes": "weights of 8 and 4 bits under an adapter",
    "ray": "runs on several machines",
    "diffusers": "image generators",
}


def examine() -> dict[str, Any]:
    """All findings as plain values: system, processor, memory and disk in bytes, devices, packages, sandbox, warnings."""
    import torch

    from gradus.policies.kernels import generation

    found: dict[str, Any] = {
        "system": {
            "name": platform.platform(),
            "python": platform.python_version(),
            "locks": importlib.util.find_spec("fcntl") is not None,
        },
        "processor": {
            "cores": os.cpu_count() or 1,
            "usable": usable_cores(),
            "threads": torch.get_num_threads(),
            "kernels": generation(),
            "environment": {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ},
        },
        "memory": memory(),
        "disk": {"folder": str(Path.cwd()), "free": shutil.disk_usage(Path.cwd()).free},
        "devices": devices(),
        "nvidia": shutil.which("nvidia-smi") is not None,
        "packages": packages(),
        "sandbox": sandbox(),
    }
    return {**found, "warnings": warnings(found)}


def sandbox() -> dict[str, Any]:
    """The isolation of model-written code. `missing`: the reason why the isolation does not work here; None if it works."""
    from gradus.sandbox import missing

    return {"isolation": "bubblewrap", "missing": missing()}


def memory() -> dict[str, int | None]:
    """Total and free memory in bytes, within the limits of the container; None if the system does not report it."""
    from gradus.runtime.memory import free_memory

    lines: dict[str, str] = dict(re.findall(r"^(\w+):\s+(\d+) kB", _read("/proc/meminfo"), re.M))
    if "MemTotal" in lines:
        limit = _read("/sys/fs/cgroup/memory.max").strip()
        total = int(lines["MemTotal"]) * 1024
        return {"total": min(total, int(limit)) if limit.isdigit() else total, "free": free_memory()}
    if hasattr(os, "sysconf"):  # macOS
        return {"total": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "free": None}
    return {"total": None, "free": None}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def devices() -> list[dict[str, Any]]:
    """The devices for --device. `memory`: bytes (None: shared with the processor); `bfloat16`: whether the hardware supports bfloat16 (None: unknown)."""
    import torch

    flags = _read("/proc/cpuinfo")
    found: list[dict[str, Any]] = [
        {
            "device": "cpu",
            "name": torch.backends.cpu.get_cpu_capability(),
            "memory": None,
            "bfloat16": None if not flags else bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", flags)),
        }
    ]
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        wide = (about.major, about.minor) >= (8, 0) or torch.version.hip is not None
        found.append({"device": f"cuda:{index}", "name": about.name, "memory": about.total_memory, "bfloat16": wide})
    if torch.backends.mps.is_available():
        found.append({"device": "mps", "name": platform.processor() or "Apple GPU", "memory": None, "bfloat16": _mps_bfloat16()})
    return found


def _mps_bfloat16() -> bool:
    import torch

    try:
        torch.ones(1, dtype=torch.bfloat16, device="mps").sum().item()
    except (RuntimeError, TypeError):  # systems before macOS 14
        return False
    return True


def packages() -> list[dict[str, Any]]:
    """Every package that Gradus needs or can use: its version (None: missing), whether it is needed, and its purpose."""
    found = []
    try:
        needs = importlib.metadata.requires("gradus") or []
    except importlib.metadata.PackageNotFoundError:  # Gradus runs from its sources and is not installed
        needs = []
    for line in needs:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is not None and extra[1] in FOR_DEVELOPERS:
            continue
        needed = extra is None
        about = "needed" if needed else PURPOSE.get(name.lower(), f"extra {extra[1]}" if extra else "")
        found.append({"name": name, "version": _version(name), "needed": needed, "for": about})
    return sorted({p["name"]: p for p in reversed(found)}.values(), key=lambda p: (not p["needed"], p["name"]))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def warnings(found: Mapping[str, Any]) -> list[str]:
    """Warnings about anything that would slow down or stop a run, each with a remedy."""
    from gradus.policies import kernels

    cores, threads = found["processor"]["usable"], found["processor"]["threads"]
    free, disk = found["memory"]["free"], found["disk"]["free"]
    missing = [p["name"] for p in found["packages"] if p["needed"] and p["version"] is None]
    cuda = any(d["device"].startswith("cuda") for d in found["devices"])
    checks = (
        (threads > cores, f"PyTorch uses {threads} threads, but only {cores} cores are usable: set OMP_NUM_THREADS={cores}"),
        (free is not None and free < ENOUGH_MEMORY, f"only {_size(free)} of memory is free: end other programs, or train a smaller model"),
        (found["processor"].get("kernels", "") is None, f"{kernels.MISSING}: {kernels.REMEDY}"),
        (disk < ENOUGH_DISK, f"only {_size(disk)} is free in {found['disk']['folder']}: a run keeps checkpoints and every rollout"),
        (not found["system"]["locks"], "this system has no POSIX file locks, but runs on disk need them: use WSL 2 on Windows"),
        (found["nvidia"] and not cuda, "there is an NVIDIA driver, but this PyTorch does not use it: install a CUDA build of torch"),
        (
            any(d["device"] == "mps" for d in found["devices"]),
            "--device mps is untested (it lacks double precision, so tokens are sampled on the CPU): train on the CPU",
        ),
        (bool(missing), f"needed packages are missing: {', '.join(missing)}; install them with: pip install {' '.join(missing)}"),
    )
    return [text for wrong, text in checks if wrong]


def _size(count: int | None) -> str:
    return "unknown" if count is None else f"{count / GB:.1f} GB"


def told_of(found: Mapping[str, Any]) -> str:
    """The findings as text."""
    from gradus.runtime.version import version

    chip, room = found["processor"], found["memory"]
    words = {True: "yes", False: "no", None: "unknown"}
    set_ = ", ".join(f"{name}={value}" for name, value in chip["environment"].items()) or "OMP_NUM_THREADS not set"
    facts = [
        ("gradus", f"{version()}, Python {found['system']['python']} at {sys.prefix}"),
        ("system", found["system"]["name"]),
        ("processor", f"{chip['usable']} of {chip['cores']} cores usable; PyTorch takes {chip['threads']} threads ({set_})"),
        ("kernels", f"compiled for {chip['kernels']}" if chip.get("kernels") else "none; PyTorch alone"),
        ("memory", f"{_size(room['total'])}, {_size(room['free'])} free"),
        ("disk", f"{_size(found['disk']['free'])} free in {found['disk']['folder']}"),
        ("sandbox", found["sandbox"]["missing"] or f"{found['sandbox']['isolation']} isolates model-written code"),
    ]
    sized = [one["name"] + ("" if one["memory"] is None else f", {_size(one['memory'])}") for one in found["devices"]]
    devices = [(f"  {one['device']}", name, words[one["bfloat16"]]) for one, name in zip(found["devices"], sized)]
    packages = [(f"  {one['name']}", one["version"] or f"missing; pip install {one['name']}", one["for"]) for one in found["packages"]]
    warned = [paint(paragraph(text, "  ", "  "), "warning") for text in found["warnings"]] or ["  none"]
    ink = {1: lambda text: "warning" if text.startswith("missing") else ""}
    parts = [outline(facts, styles={0: "title"}), outline(devices, ("devices", "", "bfloat16 in hardware"))]
    return "\n\n".join([*parts, outline(packages, ("packages", "version", "purpose"), ink), "\n".join([paint("warnings", "title"), *warned])])
