"""Self-play at noughts and crosses: PPO plays both seats, and then plays greedily against a perfect player.

    python -m benchmarks.self_play                      # seed 0, until 95 % of 200 games against the perfect player are draws
    python -m benchmarks.self_play --seeds 0 1 2 --steps 400
"""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

import numpy as np
import torch

import gradus
from gradus.credit.gae import GAE
from gradus.objectives.terms import EntropyBonus
from gradus.recipe.registry import recipe
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.seats import Seats
from gradus.tasks.games.noughts_and_crosses import best_moves, moved, mover, noughts_and_crosses, over, seen, winner
from gradus.types import Key
from gradus.types.players import Fresh, Player
from gradus.updates.optimizers import AdamW

GAMES = 200
ENOUGH = 0.95
EVERY = 10  # steps between two examinations


def self_play() -> Any:
    """The recipe ppo with a controller that plays both seats. There is no discount, and the critic has its own network."""
    return recipe("ppo").but(
        players__policy=Player(Fresh(hidden=(128, 128))),
        players__reference=None,
        players__critic__objective__value__clip=None,
        objective__entropy=EntropyBonus(0.01),
        credit=GAE(gamma=1.0, lam=0.95),
        rollout=Seats(play=Episodes(max_turns=9)),
        reward=EnvironmentReturn(),
        optimizer=AdamW(lr=1e-3, clip=0.5),
        update__epochs=4,
        update__count=4,
        setting__warmup=0,
        setting__prompts=256,
        setting__group=1,
        study=None,
        setting__eval_every=0,
        setting__save_every=0,
        setting__agreement__every=0,
    )


def greedy(network: Any, board: str) -> int:
    """Returns the most probable cell. Nothing stops the network from naming a full cell."""
    with torch.no_grad():
        return int(network(torch.from_numpy(seen(board)["board"])[None])[0].argmax())


def result(network: Any, key: Key, mark: str) -> int:
    """Plays one game greedily with this mark against the perfect player: 1 a win, 0 a draw, -1 a loss. A move to a full cell is a loss."""
    board = "." * 9
    while not over(board):
        own = mover(board) == mark
        cell = greedy(network, board) if own else key.fold(board).choice(best_moves(board))
        if board[cell] != ".":
            return -1
        board = moved(board, cell)
    won = winner(board)
    return 0 if won is None else 1 if won == mark else -1


def not_lost(network: Any, seed: int, name: str) -> float:
    """Returns the share of `GAMES` games that are not lost. The policy begins in every second game. `name` and `seed` draw the moves of the other side."""
    key = Key(seed).fold(name)
    return float(np.mean([result(network, key.fold(i), "xo"[i % 2]) >= 0 for i in range(GAMES)]))


class Reached(Exception):
    """The bar is reached, so the run may end."""


def learns(seed: int, steps: int) -> None:
    """Trains, and prints the share of games that are not lost every `EVERY` steps. Ends early when the bar is reached."""
    began, games = time.process_time(), 0

    def after(run: Any, row: Any, groups: Any) -> None:
        nonlocal games
        games += len({t.links["episode"] for g in groups for t in g.trajectories})
        if run.step % EVERY:
            return
        network = run.players["policy"].policy.network
        share = not_lost(network, seed, "examination")
        spent = time.process_time() - began
        print(f"seed {seed}: {share:.3f} of {GAMES} games not lost after {games:,} games, {spent:.0f} s of processor", flush=True)
        if share >= ENOUGH:
            print(f"seed {seed}: {not_lost(network, seed, 'other games'):.3f} of {GAMES} other games not lost", flush=True)
            raise Reached

    with contextlib.suppress(Reached):
        gradus.train(self_play().but(setting__steps=steps), task=noughts_and_crosses(), seed=seed, on_step=after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in options.seeds:
        learns(seed, options.steps)


if __name__ == "__main__":
    main()
