"""Checks the machine before a run: disk space for files, memory for updates, compiled kernels, and the sandbox for model-written code."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from gradus.checks.findings import Finding
from gradus.types.frozen import value_fields

TOKEN = 16  # bytes per sampled token in the stored rollouts: its number, log-probability, version and advantage; compressed text adds little
GB = 1e9


def of_disk(run: Any, folder: Path) -> Iterator[Finding]:
    """Checks whether the checkpoints and rollouts of the whole run fit on the disk of a folder (or of its nearest existing parent)."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free, (kept, stored) = shutil.disk_usage(place).free, disk_needed(run)
    says = f"{size(kept)} of checkpoints and up to {size(stored)} of rollouts; {size(free)} free in {place}"
    if kept > free:
        yield Finding("disk", "wrong", says, "free some space, name another folder with --run, or lower --keep")
    elif kept + stored > free:
        yield Finding("disk", "warning", says, "free some space, or name another folder with --run: the run would end early if all answers are long")
    else:
        yield Finding("disk", "ok", says)


def disk_needed(run: Any) -> tuple[int, int]:
    """Returns the sizes of the checkpoints and of the rollouts in bytes. Rollouts are counted as if every answer had the largest possible length.

    The size of the checkpoints includes all kept checkpoints, the best checkpoint and one unfinished checkpoint.
    """
    setting, sampling = run.recipe.setting, run.world(run.recipe, "check").sampling
    one = sum(_checkpoint(player) for player in run.players.values()) + weights(run.players["policy"])
    trajectories = setting.steps * setting.prompts * setting.group
    return one * (setting.keep + 2), trajectories * sampling.limit * TOKEN


def weights(player: Any) -> int:
    """Returns the size of a player's network in bytes."""
    return sum(p.numel() * p.element_size() for p in player.policy.network.parameters())


def learning(player: Any) -> int:
    """Returns the number of bytes that an update needs for a player in addition: for gradients and two moments. If the weights are narrower than float32,
    their float32 copies already exist and do not count.
    """
    if not player.learns:
        return 0
    gradients = sum(p.numel() * p.element_size() for p in player.parameters)
    moments = 2 * sum(p.numel() * p.element_size() for p in player.masters)
    return gradients + moments


def _checkpoint(player: Any) -> int:
    masters = 0 if player.masters is player.parameters else sum(p.numel() * p.element_size() for p in player.masters)
    moments = 2 * sum(p.numel() * p.element_size() for p in player.masters)
    return weights(player) + (moments + masters if player.learns else 0)


def of_kernels(run: Any) -> Iterator[Finding]:
    """Yields a warning if a language model runs in float32 on the CPU without the compiled kernels. The kernels can be installed later."""
    from gradus.policies import kernels

    policy = run.players["policy"].policy
    first = next(policy.network.parameters(), None)
    if "text" in policy.can and first is not None and (first.device.type, str(first.dtype)) == ("cpu", "torch.float32") and kernels.generation() is None:
        yield Finding("kernels", "warning", kernels.MISSING, kernels.REMEDY)


def of_memory(run: Any, device: str) -> Iterator[Finding]:
    """Checks whether gradients and moments fit into the memory that is free after the models are loaded.

    All other memory of an update depends on the batch and does not count here.
    """
    from gradus.runtime.memory import free_memory
    from gradus.types.guards import bytes_of

    asked = run.recipe.setting.memory
    needed, free = sum(map(learning, run.players.values())), free_memory(device)
    free = free if asked is None or free is None else min(free, bytes_of(asked))
    says = f"learning adds at least {size(needed)} to the weights ({size(sum(map(weights, run.players.values())))})"
    if free is None:
        yield Finding("memory", "not checked", f"{says}; the system does not report the free memory of {device}")
    elif needed > free:
        remedy = "use a smaller model, --players.policy.model Adapter, or --precision bfloat16"
        yield Finding("memory", "wrong", f"{says}, but only {size(free)} is free on {device}", remedy)
    else:
        yield Finding("memory", "ok", f"{says}; {size(free)} is free on {device}")


def of_step(found: Any) -> Iterator[Finding]:
    """Yields the finding for the memory of a step with the longest batch. `found` comes from `gradus.checks.memory_prediction.predict`."""
    peaks = [peak for peak in (found.rollout, found.update) if peak is not None]
    says = f"a step with the longest batch peaks at {size(max(peaks))}" if peaks else "a step with the longest batch was done"
    says += f" of {size(found.allowed)}" if found.allowed is not None else ""
    if not found.fits:
        yield Finding("memory", "wrong", f"{says}: {found.refused}", "; ".join(found.advice) or "use a smaller model")
    elif found.advice:
        yield Finding("memory", "warning", says, "; ".join(found.advice))
    else:
        yield Finding("memory", "ok", says)


def of_sandbox(*roots: Any) -> Iterator[Finding]:
    """Checks whether every sandbox in the parts of task and recipe runs a program and isolates it."""
    from gradus.sandbox import Isolation, SandboxError

    found = list(dict.fromkeys(box for root in roots for box in sandboxes_of(root)))
    if not found:
        yield Finding("sandbox", "not checked", "no part here runs model-written code in a sandbox")
    for box in found:
        box.check()
        started = time.perf_counter()
        try:
            ran = box.run("print(6 * 7)")
        except SandboxError as error:
            yield Finding("sandbox", "wrong", f"the sandbox does not start: {error}", "see gradus doctor, and check whether other programs use all memory")
            continue
        milliseconds = 1000 * (time.perf_counter() - started)
        if not ran.ok or ran.stdout.strip() != "42":
            yield Finding("sandbox", "wrong", f"a program that prints 42 ended by {ran.ended.value}: {ran.stderr[-200:]!r}", "raise its limits (Sandbox.limits)")
        elif box.isolation is not Isolation.BUBBLEWRAP:
            says = f"programs run with {box.isolation.value} only: they can read and write the same files as you, and use the network"
            yield Finding("sandbox", "warning", says, "remove the option for the weaker mode if bubblewrap is installed")
        else:
            yield Finding("sandbox", "ok", f"a program runs in isolation ({box.isolation.value}) in {milliseconds:.0f} ms")


def sandboxes_of(part: Any, depth: int = 8) -> Iterator[Any]:
    """Yields the sandboxes in the fields of a part, down to `depth` levels. If the part is a method, its object is searched."""
    from gradus.sandbox import Sandbox

    part = getattr(part, "__self__", part)
    if isinstance(part, Sandbox):
        yield part
    elif depth and is_dataclass(part) and not isinstance(part, type):
        for field in value_fields(part):
            yield from sandboxes_of(getattr(part, field.name), depth - 1)
    elif depth and isinstance(part, Mapping):
        for value in part.values():
            yield from sandboxes_of(value, depth - 1)
    elif depth and isinstance(part, tuple):
        for value in part[:100]:
            yield from sandboxes_of(value, depth - 1)


def size(count: float) -> str:
    """Writes a number of bytes as GB or MB."""
    return f"{count / GB:.1f} GB" if count >= GB / 10 else f"{count / 1e6:.1f} MB"
