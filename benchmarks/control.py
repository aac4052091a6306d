"""Controllers: returns of PPO on CartPole and SAC on the pendulum, and the time of one update beside bare PyTorch.

    python -m benchmarks.control cartpole pendulum update      # every figure; seeds 0, 1 and 2 one after another
    python -m benchmarks.control cartpole --seeds 0
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import gradus
from gradus.credit.gae import GAE
from gradus.players.build import build_players
from gradus.recipe.registry import recipe
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.lanes import Lanes
from gradus.selection.transition_replay import batch_of
from gradus.tasks.control.pendulum import moved, pendulum, shown
from gradus.training.lessons import credit
from gradus.training.memory import Memory
from gradus.types import Group, Key
from gradus.types.players import Fresh, Player
from gradus.updates.optimizers import AdamW

SHORT = {"study": None, "setting__eval_every": 0, "setting__save_every": 0, "setting__agreement__every": 0}
LAST = 20  # episodes that a figure is the mean of


def cartpole_recipe() -> Any:
    """The recipe ppo with a controller: no KL penalty, discounted, values that may move freely."""
    return recipe("ppo").but(
        players__policy=Player(Fresh(hidden=(64, 64))),
        players__reference=None,
        players__critic__objective__value__clip=None,
        credit=GAE(gamma=0.99, lam=0.95),
        rollout=Lanes(length=256),
        reward=EnvironmentReturn(),
        optimizer=AdamW(lr=2e-3, clip=0.5),
        update__epochs=8,
        update__count=4,
        setting__warmup=0,
        setting__prompts=8,
        setting__group=1,
        **SHORT,
    )


def pendulum_recipe() -> Any:
    """The recipe sac with networks of 64 and a rate of 1e-3."""
    hidden = {f"players__{name}__model__hidden": (64, 64) for name in ("policy", "critic")}
    return recipe("sac").but(optimizer__lr=1e-3, **hidden, **SHORT)


class Returns:
    """The returns of finished episodes, whose pieces lie in several steps."""

    def __init__(self) -> None:
        self.open: dict[str, float] = {}
        self.done: list[float] = []
        self.turns = 0

    def __call__(self, run: Any, row: Any, groups: Any) -> None:
        for t in (t for g in groups for t in g.trajectories):
            name = t.links["episode"]
            self.turns += t.actions
            self.open[name] = self.open.get(name, 0.0) + t.links["return"]
            if t.ended.value != "length":
                self.done.append(self.open.pop(name))

    @property
    def last(self) -> float:
        return float(np.mean(self.done[-LAST:])) if self.done else float("nan")


class Reached(Exception):
    """The bar is reached, so the run may end."""


def learns(task: str, made: Any, steps: int, seed: int, enough: Callable[[Returns], bool]) -> None:
    """Trains and prints turns, the mean return of the last episodes, and processor and wall time; ends early when it is enough."""
    seen, began, wall = Returns(), time.process_time(), time.time()
    reached: list[tuple[int, float]] = []

    def after(run: Any, row: Any, groups: Any) -> None:
        seen(run, row, groups)
        if not reached and enough(seen):
            reached.append((seen.turns, time.process_time() - began))
            raise Reached

    with contextlib.suppress(Reached):
        gradus.train(made.but(setting__steps=steps), task=task, seed=seed, on_step=after)
    first = f"bar after {reached[0][0]:,} turns, {reached[0][1]:.0f} s of processor" if reached else "bar not reached"
    print(
        f"{task} {made.key} seed {seed}: mean return of the last {LAST} episodes {seen.last:.0f} after {seen.turns:,} turns; {first}; "
        f"{time.process_time() - began:.0f} s of processor, {time.time() - wall:.0f} s in all",
        flush=True,
    )


def rows(count: int = 256) -> dict[str, np.ndarray]:
    states = Key(1).uniform(count, 2) * np.array([6.0, 4.0]) - np.array([3.0, 2.0])
    torques = (Key(2).uniform(count, 1) * 4 - 2).astype(np.float32)
    after = [moved(s, a.astype(np.float64)) for s, a in zip(states, torques, strict=True)]
    return {
        "before.state": np.stack([shown(s)["state"] for s in states]),
        "next.state": np.stack([shown(s)["state"] for s, _, _ in after]),
        "action": torques,
        "reward": np.array([r for _, r, _ in after], np.float32),
        "done": np.zeros(count, bool),
    }


def bare_critic(width: int, given: dict[str, np.ndarray]) -> Callable[[], None]:
    """One update of two Q-networks by plain PyTorch: forward, mean squared error, backward, AdamW; the arrays become tensors each time."""
    networks = [
        torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        for _ in range(2)
    ]
    parameters = [p for n in networks for p in n.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)

    def update() -> None:
        x = torch.cat([torch.tensor(given["before.state"]), torch.tensor(given["action"]) / 2], 1)
        y = torch.tensor(given["reward"])
        loss = torch.stack([(n(x)[:, 0] - y).square() / 2 for n in networks]).sum(0).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        optimizer.step()

    return update


def our_critic(width: int, given: dict[str, np.ndarray]) -> Callable[[], None]:
    """The same update as the loop makes it: `Minibatches.update` of the critic of SAC on one context of rows."""
    made = recipe("sac").but(**{f"players__{name}__model__hidden": (width, width) for name in ("policy", "critic")})
    players = build_players(made, None, pendulum(), Key(3))
    from gradus.training.world import RunWorld
    from gradus.types import Sampling

    world = RunWorld(step=0, purpose="train", seed=Key(3), task=pendulum(), players=players, reward=None, sampling=Sampling(), group=1)
    run: Any = SimpleNamespace(players=players, memory=Memory(), numbers={"streak": 0, "broken": False})
    _, batches = asyncio.run(credit(run, [Group("r", (batch_of(given, Key(1)),))], world))
    return lambda: made.update.update(players["critic"], batches["critic"], 0, Key()) and None


def paired(first: Callable[[], None], second: Callable[[], None], rounds: int = 300) -> tuple[float, float]:
    """The medians of processor milliseconds, one call of each in turn."""
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for place, work in enumerate((first, second)):
            began = time.process_time()
            work()
            times[place].append(1000 * (time.process_time() - began))
    return float(np.median(times[0])), float(np.median(times[1]))


def update_time() -> None:
    torch.set_num_threads(1)
    for width in (64, 256):
        bare, ours = paired(bare_critic(width, rows()), our_critic(width, rows()))
        print(f"update of 256 transitions, two heads, width {width}: bare {bare:.2f} ms, ours {ours:.2f} ms of processor: {ours / bare:.2f} times", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=("cartpole", "pendulum", "update"))
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    seeds = [int(s) for s in options.seeds.split(",")]
    for what in options.what:
        if what == "update":
            update_time()
        for seed in seeds if what == "cartpole" else ():
            learns("cartpole", cartpole_recipe(), 30, seed, lambda r: len(r.done) >= LAST and r.last >= 450)
        for seed in seeds if what == "pendulum" else ():
            learns("pendulum", pendulum_recipe(), 200, seed, lambda r: len(r.done) >= LAST and r.last >= -250)


if __name__ == "__main__":
    main()
