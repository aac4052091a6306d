"""DART-GUI: the loss by hand in plain loops, the truncated weight, the pool beside the group, its limit, a run of the system."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.credit.step_samples import ENTROPIES
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.terms import TruncatedImportance, evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.dart_gui import dart_gui
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.selection.filters import Everything
from gradus.testing.methods import check_different_update, check_same_update, steps_of, toy_batch, toy_group, train_toy
from gradus.types import Context, Frozen, Group, Key, Problem, Trajectory
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs
from gradus.types.systems import Streaming

ALONE = dart_gui.but(system=None)
REFERENCE = LogProbs(player="reference")


def episode(name: str, reward: float, turns: int, *, source: str = "policy", sampled: float = -1.0) -> Trajectory:
    """An episode of turns with one token each, sampled with this log-probability."""
    turn = np.arange(turns, dtype=np.int32)
    streams = Frozen(turn=turn, state=turn.astype(np.int64))
    context = Context(np.zeros(turns, np.int32), np.ones(turns, bool), np.full(turns, sampled, np.float32), streams=streams)
    return Trajectory(name, Problem("p", "toy"), (context,), reward=reward, source=source, components=Frozen(environment=reward))


def batch_of(entropies: dict[str, list[float]], *episodes: Trajectory):
    signals = {ENTROPIES: {name: np.array(row) for name, row in entropies.items()}}
    (row,) = dart_gui.credit.assign([Group("g", episodes)], signals)
    made = tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(episodes, row, strict=True))
    rows = {t.id: np.full(t.actions, -1.0) for t in episodes}
    return make_batch([Group("g", made)], {REFERENCE: rows}, dtype=torch.float64)


def test_the_weight_lowers_and_never_raises():
    """Rollout probability 0.2 against 0.9 has the weight 1, and 0.5 against 0.45 has 0.9."""
    batch = toy_batch(toy_group(1, lengths=[2]))
    batch.behaviour_logprobs[:] = torch.log(torch.tensor([0.2, 0.5], dtype=torch.float64))
    weight = dart_gui.objective["policy"].weight
    assert weight == TruncatedImportance(1.0)
    assert weight.factors(torch.log(torch.tensor([0.9, 0.45], dtype=torch.float64)), batch).tolist() == pytest.approx([1.0, 0.9])
    assert weight.factors(torch.log(torch.tensor([1e-6, 0.5], dtype=torch.float64)), batch).tolist() == pytest.approx([5e-6, 1.0])  # no lower bound


@pytest.mark.parametrize("source", ["policy", "replay"])
def test_the_loss_equals_plain_loops(source):
    """A success of one step and a failure of four steps; the failure's second step has the lowest entropy. Also if the success comes from the pool."""
    episodes = episode("a", 1.0, 1, source=source, sampled=-0.25), episode("b", 0.0, 4, sampled=-1.5)
    batch = batch_of({"a": [0.5], "b": [0.9, 0.1, 0.7, 0.3]}, *episodes)
    old, now = np.array([-0.7, -1.0, -1.0, -1.2, -1.6]), np.array([-0.1, -0.9, -3.0, -1.6, -1.5])
    behaviour = np.array([-0.25, -1.5, -1.5, -1.5, -1.5])
    mean, std = 1 / 5, np.sqrt(1 / 5 * 4 / 5)  # over five steps
    advantages = (np.array([1, 0, 0, 0, 0]) - mean) / std
    mask = np.array([1, 1, 0, 1, 1])
    due = 0.0
    for i in range(5):
        ratio, weight = np.exp(now[i] - old[i]), min(np.exp(old[i] - behaviour[i]), 1.0)
        surrogate = min(ratio * advantages[i], min(max(ratio, 0.8), 1.28) * advantages[i])
        due -= mask[i] * weight * surrogate / mask.sum()
        gap = -1.0 - now[i]
        if source == "policy" or i:  # the KL term leaves out the episodes of the pool
            due += 0.1 * mask[i] * (np.exp(gap) - gap - 1) / mask.sum()
    batch.old[LogProb()] = torch.tensor(old)
    rows = torch.tensor(now, requires_grad=True)
    loss, _ = evaluate(dart_gui.objective, {LogProb(): rows}, batch)
    assert float(loss.detach()) == pytest.approx(due, abs=1e-12)
    loss.backward()
    assert rows.grad[2] == 0  # the step with low entropy
    assert rows.grad[0] == 0 or source == "policy"  # ratio 1.82 is clipped; only the KL term pulls


def test_without_its_differences_it_trains_to_the_weights_of_grpo():
    plain = grpo.but(
        rollout=Episodes(max_turns=30, history=2),
        reward=EnvironmentReturn(),
        credit=dart_gui.credit.rule,
        objective__policy__trust=Clip(0.2, 0.28),
        objective__policy__average=TokenMean(),
        objective__kl=KL(0.1, average=TokenMean()),
    )
    limit = ALONE.but(curriculum=ShuffledEpochs(), selection=Everything(), credit__top=1.0, objective__policy__weight=None)
    check_same_update(limit, plain, steps=3)
    check_different_update(limit.but(credit__top=0.3), limit, steps=3)
    check_different_update(limit.but(credit=limit.credit.rule, objective__policy__trust=Clip(0.2, 0.2), update__epochs=3), limit, steps=3)


def test_the_numbers_of_episodes_follow_the_successes_and_the_pool_fills_in():
    easy = ALONE.but(curriculum__pool=2, curriculum__easy_above=0.0, curriculum__most=4)  # every success makes a task easy
    seen = steps_of(easy, steps=6, learning_rate=0.3)
    assert seen[0][0]["rollouts"] == 4
    assert seen[-1][0]["rollouts"] < 4
    pooled = []
    pool = ALONE.but(curriculum__pool=2, curriculum__most=2)

    def watch(run, row, groups):
        kept = run.memory.states["selection"]["state"]["kept"]
        pooled.append((bool(kept), row.get("loss/pool")))

    train_toy(pool, watch=watch, steps=8, learning_rate=0.0)
    assert pooled[-1][0]  # there are successes in the pool
    assert any(loss is not None for _, loss in pooled)  # and a group without one learned from them


def test_the_system_samples_beside_the_updates_and_no_group_is_older_than_a_step():
    seen = steps_of(dart_gui.but(curriculum__most=3), steps=4, prompts=2)
    assert [len(groups) for _, groups in seen] == [2] * 4
    assert all(row["staleness"] <= 1 for row, _ in seen)
    check_same_update(dart_gui.but(system=Streaming(staleness=0, workers=2)), ALONE, steps=2)


def test_the_numbers_of_the_paper():
    terms = dart_gui.objective
    assert (terms["policy"].trust, terms["pool"].trust) == (Clip(0.2, 0.28),) * 2
    assert (terms["kl"].coefficient, dart_gui.credit.top, dart_gui.rollout.max_turns) == (0.1, 0.8, 30)
    assert (dart_gui.curriculum.most, dart_gui.curriculum.easy_above) == (8, 0.6)
    assert dart_gui.selection.keep([toy_group(0, 0)], Key(), dart_gui.selection.start())[1] == []
