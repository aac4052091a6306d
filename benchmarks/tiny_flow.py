"""Pre-train the built-in flow generator: python -m benchmarks.tiny_flow [--steps N] [--to FOLDER]. Under a minute on one core.

Plain flow matching: minimise |v(x_t, t, c) - (e - x_0)|^2 with x_t = (1 - t) x_0 + t e. The data follow a direction phi loosely: mode k of
the eight Gaussians of the task flow_2d has the chance softmax_k(SHARPNESS cos(phi - angle of k)). A run can improve on this.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradus.policies.flow import BUILT_IN, FlowModel
from gradus.policies.flow_network import FlowConfig
from gradus.policies.flow_steps import draw
from gradus.tasks.flow.flow_2d import MODES, SPREAD, WIDTH, centre
from gradus.types import Key
from gradus.types.samplers import Ode

SHARPNESS, BATCH, PEAK, AVERAGED = 2.0, 512, 3e-3, 0.999
CENTRES = np.array([centre(k) for k in range(MODES)])


def data(count: int, key: Key) -> tuple[np.ndarray, np.ndarray]:
    """Points [count, 2] and their conditions [count, 2] (cosine and sine of a direction)."""
    phi = 2 * math.pi * key.fold("direction").uniform(count)
    angles = 2 * math.pi * np.arange(MODES) / MODES
    weight = np.exp(SHARPNESS * np.cos(phi[:, None] - angles))
    share = weight.cumsum(1) / weight.sum(1, keepdims=True)
    mode = (share < key.fold("mode").uniform(count)[:, None]).sum(1).clip(max=MODES - 1)
    return CENTRES[mode] + SPREAD * key.fold("point").normal(count, 2), np.stack([np.cos(phi), np.sin(phi)], 1)


def train(steps: int, key: Key) -> FlowModel:
    """A trained model; its weights are the average over about the last thousand steps."""
    model = FlowModel.fresh(FlowConfig(), key.fold("weights"))
    averaged = model.clone()
    rule = torch.optim.AdamW(model.network.parameters(), lr=PEAK, weight_decay=0.0)
    began, running = time.perf_counter(), math.nan
    for step in range(steps):
        rule.param_groups[0]["lr"] = PEAK * min(1.0, (step + 1) / 100) * (1 + math.cos(math.pi * step / steps)) / 2
        loss = matching_loss(model, key.fold("step", step))
        loss.backward()
        rule.step()
        rule.zero_grad()
        with torch.no_grad():
            for old, new in zip(averaged.network.parameters(), model.network.parameters(), strict=True):
                old.lerp_(new, 1 - min(AVERAGED, (step + 1) / (step + 10)))
        running = loss.item() if step == 0 else 0.99 * running + 0.01 * loss.item()
        if step % 1000 == 999:
            print(f"step {step + 1}/{steps}  loss {running:.4f}  {time.perf_counter() - began:.0f} s", flush=True)
    return averaged


def matching_loss(model: FlowModel, key: Key) -> Tensor:
    """The mean flow-matching error of a batch over points and dimensions."""
    points, condition = (torch.from_numpy(a).float() for a in data(BATCH, key))
    t = torch.from_numpy(key.fold("time").uniform(BATCH)).float()
    noise = torch.from_numpy(key.fold("noise").normal(BATCH, 2)).float()
    mixed = (1 - t[:, None]) * points + t[:, None] * noise
    return (model.network(mixed, t, condition) - (noise - points)).square().mean()


def report(model: FlowModel, key: Key, count: int = 2048) -> None:
    """Prints the mean reward at the prompted modes, and the share of the points near a mode."""
    modes = np.arange(count) % MODES
    angles = 2 * math.pi * modes / MODES
    condition = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 1)).float()
    points = draw(model.network, Ode().path(), [key.fold(i) for i in range(count)], condition, 2).samples.double().numpy()
    reward = np.exp(-np.square(points - CENTRES[modes]).sum(1) / (2 * WIDTH**2))
    apart = np.sqrt(np.square(points[:, None] - CENTRES).sum(-1)).min(1)
    print(
        f"reward {reward.mean():.3f}; {np.mean(apart < 3 * SPREAD):.1%} of the points within three deviations of a mode (of the data 98.9%)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--to", type=Path, default=BUILT_IN)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = train(asked.steps, Key(0).fold("flow_2d"))
    model.save(asked.to)
    report(model, Key(1))
    print(f"written to {asked.to}: {(asked.to / 'model.safetensors').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
