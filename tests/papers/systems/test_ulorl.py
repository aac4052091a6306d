"""UloRL: segments of one answer, ratios of 1, the mask by hand, the loss in plain loops, its limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.ratios import OnPolicy, TokenRatio
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip, Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.ulorl import CHANCES, ENTROPIES, MasteredMask, mask_of_mastered, ulorl
from gradus.rollouts.in_flight import InFlight
from gradus.selection.filters import Mixed
from gradus.testing.methods import (
    TOY,
    check_different_update,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    scripted_world,
    steps_of,
    toy_batch,
    toy_group,
    toy_trajectory,
    weights_after,
)
from gradus.types import Group, Request, Sampling, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import Entropy, LogProb, LogProbs

FOUR = ulorl.but(rollout__parts=3)
CERTAIN = np.log([0.995, 0.5, 0.999])


def weights(chances, entropy, *, right, **options):
    """The weights that the mask gives one answer with these log-probabilities, all with this entropy; None if no token is masked."""
    answer = toy_trajectory([2] * len(chances), reward=float(right))
    signals = {CHANCES: {"t": np.array(chances)}, ENTROPIES: {"t": np.full(len(chances), entropy)}}
    ((found,),) = MasteredMask(**options).assign([Group("g", (answer,))], signals)
    return None if found.weights is None else found.weights.tolist()


def test_the_mask_by_hand():
    assert weights(CERTAIN, 0.1, right=True) == [0, 1, 0]
    assert weights(CERTAIN, 0.3, right=True) is None
    assert weights(CERTAIN, 0.1, right=False) is None
    assert weights(CERTAIN, 0.1, right=True, sigma=0.0) is None
    assert weights(CERTAIN, 0.3, right=True, sigma=math.inf) == [0, 1, 0]


def test_the_bounds_of_the_mask():
    assert weights([math.log(0.99), math.log(0.98)], 0.1, right=True) == [0, 1]  # the probability tau is mastered
    assert weights(CERTAIN, 0.25, right=True, sigma=0.25) is None  # the entropy sigma does not mask
    assert mask_of_mastered(np.log([0.999, 0.999]), np.array([0.1, 0.5]), tau=0.99, sigma=0.31).tolist() == [0, 0]  # the mean counts: 0.3
    assert mask_of_mastered(np.zeros(0), np.zeros(0), tau=0.99, sigma=0.2).tolist() == []
    with pytest.raises(UserError, match="tau"):
        MasteredMask(tau=1.5)


class Halved(GroupRelative):
    def assign(self, groups, signals):
        return [[replace(c, weights=np.full(len(c.advantages), 0.5)) for c in row] for row in super().assign(groups, signals)]


def test_weights_of_the_inner_rule_stay():
    assert weights(CERTAIN, 0.1, right=True, rule=Halved()) == [0, 0.5, 0]


def test_answers_of_one_group_are_masked_by_their_own_entropies():
    group = toy_group(1, 1, 0)
    signals = {CHANCES: {t.id: np.zeros(2) for t in group.trajectories}, ENTROPIES: {"g/0": [0.1] * 2, "g/1": [0.3] * 2, "g/2": [0.1] * 2}}
    signals[ENTROPIES] = {name: np.array(row) for name, row in signals[ENTROPIES].items()}
    (row,), (plain,) = (rule.assign([group], signals) for rule in (MasteredMask(), GroupRelative()))
    assert [None if c.weights is None else c.weights.tolist() for c in row] == [[0, 0], None, None]
    assert [c.advantages.tolist() for c in row] == [c.advantages.tolist() for c in plain]


def test_forty_tokens_in_segments_of_sixteen_enter_in_the_third_step_with_their_versions():
    text = "x" * 39  # and the end token
    world, _ = scripted_world(TOY, lambda ask: text[ask.at - 2 :])
    problem = replace(TOY.source.draw([0], None, world.key)[0], text="q?")
    rollout, out = InFlight(parts=4), []
    state, requests = rollout.start(), [Request(problem, sampling=Sampling(max_tokens=64))]
    for step in range(5):
        world.players["policy"].updates = step
        groups, state = asyncio.run(rollout.run(requests if step == 0 else [], world, state))
        out.append(groups)
    assert [len(groups) for groups in out] == [0, 0, 1, 0, 0]
    (answer,) = out[2][0].trajectories[0].contexts
    assert answer.versions.tolist() == [0] * 16 + [1] * 16 + [2] * 8
    assert world.notes["decode_steps"] == pytest.approx((16 + 16 + 8) / 3)


def test_every_ratio_is_one_and_the_gradient_is_the_advantage():
    made = toy_batch(toy_group(1, 0, lengths=[2, 1]))
    now, old = torch.tensor([-1.0, -2.0, -0.3], dtype=torch.float64, requires_grad=True), torch.tensor([-3.0, -0.1, -0.2], dtype=torch.float64)
    found = OnPolicy().log_ratio(now, old, made)
    assert found.tolist() == [0, 0, 0]
    found.backward(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert now.grad.tolist() == [1, 2, 3]
    batch = [toy_group(1, 0, lengths=[2, 1])]
    loss, slopes, metrics = loss_and_gradient(ulorl.objective, batch, [-1.0, -2.0, -0.3], advantages=[1.5, -0.5])
    assert (loss, metrics["ratio"]) == (pytest.approx(-(1.5 + 1.5 - 0.5) / 3), 1)
    assert slopes == pytest.approx([-1.5 / 3, -1.5 / 3, 0.5 / 3], abs=1e-12)


def test_ratios_by_segment_are_one_for_unchanged_weights():
    sais = ulorl.but(objective__policy__ratio=TokenRatio("behaviour"), objective__policy__trust=Clip())
    answers = Group("g", tuple(toy_trajectory([2] * 2, name=str(i), logprobs=[-0.5, -1.25]) for i in range(2)))
    _, slopes, metrics = loss_and_gradient(sais.objective, [answers], [-0.5, -1.25] * 2, advantages=[1, -1])
    assert metrics["ratio"] == 1
    assert slopes == loss_and_gradient(ulorl.objective, [answers], [-0.5, -1.25] * 2, advantages=[1, -1])[1]
    _, slopes, metrics = loss_and_gradient(sais.objective, [answers], [-0.25, -1.25] * 2, advantages=[1, -1])
    ratio = math.exp(0.25)  # above 1.2, so the clip stops the first token of the answer with advantage 1
    assert metrics["ratio"] == pytest.approx((ratio + 1) / 2)
    assert slopes == pytest.approx([0, -1 / 4, ratio / 4, 1 / 4], abs=1e-12)


def masked(chances, entropies):
    """The batch of two right answers and a wrong one under the recipe's credit."""
    group = toy_group(1, 1, 0, lengths=[3, 3, 3])
    signals = {
        CHANCES: {t.id: c for t, c in zip(group.trajectories, chances, strict=True)},
        ENTROPIES: {t.id: np.full(3, h) for t, h in zip(group.trajectories, entropies, strict=True)},
    }
    (row,) = ulorl.credit.assign([group], signals)
    pairs = zip(group.trajectories, row, strict=True)
    return make_batch([group.but(trajectories=tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in pairs))], dtype=torch.float64)


def gradient(batch):
    now = torch.full((batch.actions,), -0.5, dtype=torch.float64, requires_grad=True)
    evaluate(ulorl.objective, {LogProb(): now}, batch)[0].backward()
    return now.grad.tolist()


def test_the_loss_equals_plain_loops():
    high, low = math.sqrt(0.5), -math.sqrt(2)  # (1 - 2/3) / (sqrt(2)/3) and (0 - 2/3) / (sqrt(2)/3)
    due = [0, -high / 9, 0, *[-high / 9] * 3, *[-low / 9] * 3]  # the divisor counts the two masked tokens too
    assert gradient(masked([CERTAIN] * 3, [0.1, 0.3, 0.1])) == pytest.approx(due, abs=1e-12)


def test_an_answer_of_certain_tokens_has_no_gradient_and_counts_in_the_divisor():
    sure = np.full(3, -1e-4)
    due = [0.0] * 3 + [-math.sqrt(0.5) / 9] * 3 + [math.sqrt(2) / 9] * 3
    assert gradient(masked([sure, CERTAIN, CERTAIN], [0.1, 0.3, 0.1])) == pytest.approx(due, abs=1e-12)


def test_without_its_differences_it_trains_to_the_weights_of_grpo():
    plain = grpo.but(
        objective__kl=None, players__reference=None, objective__policy__average=TokenMean(), objective__policy__trust=Unclipped(), selection=Mixed()
    )
    limit = ulorl.but(rollout__parts=1, credit__sigma=0.0)
    check_same_update(limit, plain, steps=3)
    check_different_update(limit.but(credit__sigma=math.inf, credit__tau=0.05), limit, steps=3)
    check_different_update(limit.but(rollout__parts=3), limit, steps=3)


def test_later_updates_on_a_batch_keep_the_ratio_1():
    seen = [metrics["ratio"] for metrics, _ in steps_of(FOUR.but(update__epochs=3), steps=5, learning_rate=0.2) if "ratio" in metrics]
    assert seen
    assert set(seen) == {1.0}
    sais = FOUR.but(update__epochs=3, objective__policy__ratio=TokenRatio("behaviour"))
    assert any(metrics.get("ratio", 1) != 1 for metrics, _ in steps_of(sais, steps=5, learning_rate=0.2))


def test_the_numbers_of_the_paper_and_groups_of_one():
    assert (ulorl.rollout.parts, ulorl.credit.tau, ulorl.credit.sigma) == (8, 0.99, 0.2)
    assert (ulorl.update.epochs, ulorl.update.count) == (1, 1)
    assert set(ulorl.credit.needs) == {LogProbs(fresh=True), Entropy(fresh=True)}  # those at the start of the update
    check_micro_batches(FOUR, steps=4)
    before, after = (weights_after(FOUR, steps=3, group=1, rate=rate)["policy.logits"] for rate in (0.0, 1.0))
    assert torch.equal(before, after)  # one answer is never mixed
