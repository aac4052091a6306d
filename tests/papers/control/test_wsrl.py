"""WSRL: nothing moves in the warm-up, four critic updates a turn after it, and no recorded row in any online batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradus
from gradus.credit.bellman import SoftBellman
from gradus.papers.control.wsrl import OFFLINE, SomeHeads, some_of, wsrl
from gradus.recipe.core import changes
from gradus.recipe.registry import recipe
from gradus.rollouts.recorded import Recorded
from gradus.testing.methods.control import toy_control
from gradus.training.course import course
from gradus.types import Context, Frozen, Group, Key, Problem, Trajectory, UserError
from gradus.types.moments import Steps
from gradus.updates.minibatches import Minibatches

LEARNING = ("policy", "critic", "temperature")
FIRST, LENGTH, WARMUP = 2, 5, 15  # two offline steps; one lane of 5 turns a step: the warm-up takes steps 2, 3 and 4


@dataclass(frozen=True)
class Watched:
    """The default update, which also notes the rows that the critic learns from."""

    seen: list[Any] = field(default_factory=list, compare=False)

    def apply(self, players, batches, step, key):
        if "critic" in batches:
            self.seen.append((step, sorted(batches), batches["critic"].stream("row").numpy()))
        return Minibatches().apply(players, batches, step, key)


def small(offline: int = FIRST, online: int = 5, **more: Any) -> Any:
    """The recipe with small networks and short stages, and two rounds in an offline step."""
    stages = {"schedule__stages__offline__until": Steps(offline), "schedule__stages__online__until": Steps(online)}
    made = recipe("wsrl").but(study=None, setting__eval_every=0, rollout__length=LENGTH, selection__batch=8, selection__warmup=WARMUP, **stages)
    held = Frozen({**wsrl.schedule.stages["offline"].changes, "selection.idle": 2})
    small = {f"players__{name}__model__hidden": (8,) for name in ("policy", "critic")}
    return made.but(schedule__stages__offline__changes=held, **small, **more)


def trained(made: Any) -> tuple[Any, list[Any]]:
    """The run, and after every step the weights, the updates and the rows of the buffer."""
    after = []

    def note(run: Any, row: Any, groups: Any) -> None:
        weights = {n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in (*LEARNING, "target")}
        updates = {n: run.players[n].updates for n in LEARNING}
        after.append((weights, updates, run.memory.states["selection"]["state"]["rows"]["row"].copy(), row["stage"]))

    return gradus.train(made, task=toy_control(), on_step=note), after


def same(a: dict[str, Any], b: dict[str, Any], names: Any) -> bool:
    return all(torch.equal(x, y) for n in names for x, y in zip(a[n], b[n], strict=True))


def test_the_warm_up_moves_nothing_and_fills_the_buffer():
    _, after = trained(small())
    assert [stage for *_, stage in after] == ["offline"] * 2 + ["online"] * 5
    offline = after[FIRST - 1][0]
    assert not same(offline, after[0][0], [*LEARNING, "target"])  # the offline steps do move them
    for i in (2, 3, 4):
        weights, updates, rows, _ = after[i]
        assert updates == dict.fromkeys(LEARNING, 0)
        assert same(weights, offline, [*LEARNING, "target"])  # pi_0, Q_0, its slow copy and the temperature, to the bit
        assert rows.tolist() == list(range(LENGTH * (i - 1)))  # the recorded rows are gone, K turns are stored
    assert not any(same(after[5][0], offline, [n]) for n in (*LEARNING, "target"))


def test_four_critic_updates_and_one_of_the_policy_for_every_turn():
    _, after = trained(small())
    for n, share in (("critic", 4), ("policy", 1), ("temperature", 1)):
        assert [after[i][1][n] for i in (4, 5, 6)] == [0, share * LENGTH, 2 * share * LENGTH]
    assert after[FIRST - 1][1] == dict.fromkeys(LEARNING, 2 * FIRST)  # offline they move alike, twice a step here


def test_no_online_batch_holds_a_recorded_row_and_every_offline_batch_only_such():
    """The same watch in both stages: the rows of an offline batch are numbered from -1 down, those of an online batch from 0 up."""
    watched = Watched()
    made = small(update__update=watched)
    held = made.schedule.stages["offline"].changes.replace(update=watched)
    trained(made.but(schedule__stages__offline__changes=held))
    offline, online = (np.concatenate([rows for step, _, rows in watched.seen if (step < FIRST) is first]) for first in (True, False))
    assert (len(offline), len(online)) == (8 * 2 * FIRST, 8 * 4 * 2 * LENGTH)
    assert offline.max() < 0
    assert online.min() >= 0


def test_without_the_hand_over_the_critics_would_be_fresh():
    players = wsrl.schedule.stages["online"].players
    assert dict(players) == {name: f"offline.{name}" for name in ("critic", "target", "temperature")}
    _, after = trained(small(online=1, schedule__stages__online__players=players.replace(critic=None)))
    assert same(after[FIRST][0], after[FIRST - 1][0], ["policy", "target", "temperature"])
    assert not same(after[FIRST][0], after[FIRST - 1][0], ["critic"])


def test_the_two_stages():
    legs = course(wsrl, toy_control(), lambda name: toy_control())
    assert [(leg.name, leg.steps, leg.start) for leg in legs] == [("offline", 200, None), ("online", 300, "offline")]
    offline, online = (leg.recipe for leg in legs)
    assert set(changes(online, offline)) - {"setting.steps"} == {"rollout", "update", "players.critic.objective.conservative"}
    assert set(OFFLINE) == {"rollout", "update", "players.critic.objective.conservative"}
    assert isinstance(offline.rollout, Recorded)
    assert offline.players["critic"].objective["conservative"] == recipe("cql").players["critic"].objective["conservative"]
    assert "conservative" not in online.players["critic"].objective


def test_offline_it_is_cql_with_its_networks_and_heads():
    offline = course(wsrl, toy_control(), lambda name: toy_control())[0].recipe
    left = set(changes(recipe("cql"), offline)) - {"setting.steps"}
    assert left == {
        "players.policy.model.layer_norm",
        "players.critic.model.heads",
        "players.critic.model.layer_norm",
        "players.critic.credit",
        "selection.per_row",  # no row is collected offline, so neither number counts
        "selection.warmup",
    }


def test_the_offline_stage_can_be_cal_ql():
    conservative = "players.critic.objective.conservative"
    held = small().schedule.stages["offline"].changes
    floor = {conservative: held[conservative].__class__(2.5, 4, floor="to_go")}
    bounded = held.replace(**floor, rollout=Recorded(gamma=0.99))
    run, _ = trained(small().but(schedule__stages__offline__changes=bounded))
    rows = [row["critic/floored"] for row in run.metrics if "critic/floored" in row]
    assert len(rows) == FIRST  # the offline steps alone
    with pytest.raises(UserError, match="needs to_go, but no other part of the recipe gives to_go; set --rollout Recorded"):
        trained(small().but(schedule__stages__offline__changes=held.replace(**floor)))


FILE = """
from gradus.testing.methods.control import toy_control

task = toy_control()
"""


@pytest.mark.parametrize("kept", [1, 2, 4, 6])
def test_a_run_killed_within_a_stage_or_between_two_goes_on_to_the_same_bytes(tmp_path: Path, kept: int):
    """Cut back to the checkpoint after 1 (within offline), 2 (between the stages), 4 (in the warm-up) or 6 steps (online)."""
    (tmp_path / "t.py").write_text(FILE)
    where = tmp_path / "run"
    gradus.train(small(), task=f"{tmp_path}/t.py:task", run=where, setting__save_every=1, setting__keep=10)
    whole = {p.relative_to(where): p.read_bytes() for p in (where / "metrics.jsonl", *sorted((where / "final").rglob("*.safetensors")))}
    assert len(whole) > 1
    for checkpoint in sorted((where / "checkpoints").iterdir()):
        if int(checkpoint.name.removeprefix("step-")) > kept:
            (checkpoint / "manifest.json").unlink()
    gradus.resume(where)
    assert all((where / path).read_bytes() == found for path, found in whole.items())


def test_the_target_is_the_least_of_two_of_ten_heads():
    rule = wsrl.players["critic"].credit
    assert (rule.heads, rule.rule.entropy, wsrl.players["critic"].model.heads, wsrl.players["critic"].model.layer_norm) == (2, False, 10, True)
    values = np.arange(20.0).reshape(2, 10)
    assert some_of(values, 10, Key()).tolist() == values.tolist()
    found = [some_of(values, 2, Key(i)).min(1) for i in range(400)]
    assert all(b - a == 10 for a, b in found)  # one set of heads for all rows
    # the least of two of ten heads is head i with chance (9 - i) / 45: its mean is 8/3
    assert np.mean([a for a, _ in found]) == pytest.approx(8 / 3, abs=0.4)


def test_targets_of_some_heads_by_hand():
    """Both of ten heads that the key draws give the target: 1 + 0.5 min; no entropy counts."""
    streams = Frozen(reward=np.array([1.0], np.float32), done=np.array([False]), key=np.array([5], np.uint64))
    context = Context(np.zeros(2, np.int32), np.array([False, True]), streams=streams)
    row = Trajectory("t", Problem("p", "w", text="s"), (context,), reward=0.0, source="replay")
    rule, values = SomeHeads(SoftBellman(gamma=0.5, entropy=False, temperature=None)), np.arange(10.0)[None] ** 2
    action, q = rule.needs
    ((found,),) = rule.assign([Group("g", (row,))], {action: {"t": np.zeros((1, 2))}, q: {"t": values}})
    pair = Key(5).fold("subset").permutation(10)[:2]
    assert found.returns.tolist() == [1 + 0.5 * min(pair) ** 2]
    with pytest.raises(UserError, match="heads is 0"):
        SomeHeads(heads=0)


def test_without_its_changes_it_is_sac():
    base = recipe("sac")
    assert wsrl.parent is base
    assert changes(base, wsrl).keys() == {
        "players.policy.model.layer_norm",
        "players.critic.model.heads",
        "players.critic.model.layer_norm",
        "players.critic.credit",
        "players.critic.optimizer",
        "optimizer.lr",
        "selection.per_row",
        "selection.warmup",
        "update",
        "schedule",
        "requires",
    }
