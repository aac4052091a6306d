"""SPO: cut points, advantages of segments and of trees by hand, the mask, and that one segment of unsure tokens is VinePPO."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.step_values import TreeChanges
from gradus.objectives.terms import evaluate
from gradus.papers.credit.spo_segment import SegmentChanges, spo_segment
from gradus.papers.credit.vineppo import vineppo
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.segment_tree import SegmentTree
from gradus.testing.methods import TOY, advantages_of, scripted_world, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import Frozen, Group, Key, Request, Sampling, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs
from gradus.types.spans import CutPoints, Separated


def answer(probabilities, values, reward, name="t", every=1):
    """An answer of these probabilities; `values` are those before its segments."""
    made = toy_trajectory([2] * len(probabilities), reward=reward, name=name, logprobs=[math.log(p) for p in probabilities])
    span = CutPoints(every=every).of(made.contexts[0], lambda tokens: "")
    value = np.array([values[s] if s >= 0 else np.nan for s in span])
    return made.but(contexts=(replace(made.contexts[0], streams=Frozen(span=span, value=value)),))


def test_changes_of_segments_by_hand():
    made = Group("g", (answer([0.5, 0.5, 0.5], [0.5, 0.25, 0.75], 1.0),))
    (row,) = advantages_of(SegmentChanges(whitened=False), made)[0]
    assert row == [-0.25, 0.5, 0.25]
    assert sum(row) == 1 - 0.5


def test_only_unsure_tokens_have_a_gradient():
    made = Group("g", (answer([0.99, 0.5, 0.95, 0.3], [0.5, 0.25], 1.0), answer([0.99], [], 0.0, "u")))
    rows = SegmentChanges(whitened=False).assign([made], {})[0]
    assert [c.advantages.tolist() for c in rows] == [[0, -0.25, 0, 0.75], [0]]
    assert [c.weights.tolist() for c in rows] == [[0, 1, 0, 1], [0]]
    credited = tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(made.trajectories, rows, strict=True))
    reference = {t.id: np.full(t.actions, -3.0) for t in credited}
    batch = make_batch([Group("g", credited)], {LogProbs(player="reference"): reference}, dtype=torch.float64)
    logprobs = torch.full((5,), -0.5, dtype=torch.float64, requires_grad=True)
    evaluate(spo_segment.objective, {LogProb(): logprobs}, batch)[0].backward()
    assert (logprobs.grad != 0).tolist() == [False, True, False, True, False]


def test_whitening_is_over_the_unsure_tokens_of_the_batch():
    made = Group("g", (answer([0.99, 0.5, 0.95, 0.3], [0.5, 0.25], 1.0), answer([0.5], [0.25], 0.0, "u"), answer([0.5], [0.0], 9.0, "v", 1)))
    other = made.but(trajectories=(*made.trajectories[:2], made.trajectories[2].but(trained=False)))
    a, b, _ = advantages_of(SegmentChanges(), other)[0]
    white = np.array([a[1], a[3], b[0]])
    bare = np.array([-0.25, 0.75, -0.25])
    assert white == pytest.approx((bare - bare.mean()) / bare.std())
    assert (a[0], a[2]) == (0, 0)


def test_a_tree_by_hand():
    # leaf rewards 1 1 and 0 1: the root is worth .75, its children 1 and .5
    said = {(): ["ccc", "aaa"], (0,): ["b", "b"], (1,): ["c", "b"]}
    turns = {}

    def speak(ask):
        path = ask.request.tags[ask.request.tags.index("tree") + 1 :]
        turns[path] = turns.get(path, -1) + 1
        return said[path][turns[path]]

    world, _ = scripted_world(TOY, speak, reward=Verified())
    request = Request(TOY.source.draw([0], None, Key())[0], sampling=Sampling(max_tokens=100))
    (leaves,) = asyncio.run(SegmentTree((2, 2), 2).run([request], world))
    (inner,) = asyncio.run(world.aside())
    assert [row[0] for row in advantages_of(TreeChanges(), inner)[0]] == [0.25, -0.25]
    assert [row[0] for row in advantages_of(TreeChanges(), leaves)[0]] == [0, 0, -0.5, 0.5]
    assert [row[0] for row in advantages_of(TreeChanges(scale="siblings"), leaves)[0]] == [0, 0, -1, 1]
    masked = TreeChanges(rho=0.8).assign([leaves], {})[0][2]  # log-probabilities -1/8 and -2/8: .88 and .78
    assert (masked.advantages.tolist(), masked.weights.tolist()) == ([0, -0.5], [0, 1])


def test_one_segment_of_unsure_tokens_is_vineppo_with_one_step():
    ours = spo_segment.but(rollout__marking=CutPoints(rho=2.0, every=1000), credit__rho=2.0, rollout__count=2)
    base = vineppo.but(rollout__marking=Separated(most=1), rollout__count=2)
    a, b = (weights_after(r, steps=2)["policy.logits"] for r in (ours, base))
    assert_close(a, b, rtol=0, atol=1e-12)
    other = weights_after(spo_segment.but(rollout__count=2), steps=2)["policy.logits"]
    assert not torch.allclose(other, b, atol=1e-6)


def test_the_loss_and_its_gradient_equal_plain_loops():
    made = [answer([0.5, 0.95, 0.4], [0.5, 0.75], 0.0, "0"), answer([0.6, 0.3], [0.5, 0.25], 1.0, "1")]
    rows = spo_segment.credit.assign([Group("g", tuple(made))], {})[0]
    credited = tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(made, rows, strict=True))
    rng = np.random.default_rng(0)
    reference = {t.id: rng.normal(size=t.actions) for t in credited}
    batch = make_batch([Group("g", credited)], {LogProbs(player="reference"): reference}, dtype=torch.float64)
    old = torch.from_numpy(rng.normal(size=5))
    batch = replace(batch, old={LogProb(): old})
    logprobs = (old + torch.tensor([0.3, -0.4, 0.1, 0.5, -0.6])).requires_grad_()
    loss, metrics = evaluate(spo_segment.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    bare = {0: 0.25, 2: -0.75, 3: -0.25, 4: 0.75}  # without the second token of the first answer
    mean = sum(bare.values()) / 4
    unit = math.sqrt(sum((a - mean) ** 2 for a in bare.values()) / 4)
    flat = np.concatenate([reference["0"], reference["1"]])

    def slow(values):
        total = 0.0
        for i, a in bare.items():
            own, ratio, d = (a - mean) / unit, math.exp(values[i] - old[i].item()), flat[i] - values[i]
            total += -min(ratio * own, min(max(ratio, 0.8), 1.2) * own) / 4 + 0.0001 * (math.exp(d) - d - 1) / 2
        return total

    values = logprobs.tolist()
    assert_close(loss.item(), slow(values))
    for i in range(5):
        up, down = ([v + h * (j == i) for j, v in enumerate(values)] for h in (1e-6, -1e-6))
        assert logprobs.grad[i].item() == pytest.approx((slow(up) - slow(down)) / 2e-6, abs=1e-7)
    assert metrics["clip_share"].mean > 0


def test_toy_steps_cut_and_learn_in_both_forms():
    seen = []
    train_toy(spo_segment, steps=3, prompts=4, group=8, learning_rate=0.1, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert np.mean([metrics["clip_share"] for metrics, _ in seen]) > 0
    rows = [t for _, groups in seen for g in groups for t in g.trajectories]
    assert all(((t.weights == 0) <= (t.advantages == 0)).all() for t in rows)
    assert any(len(set(t.advantages.tolist())) > 1 for t in rows)
    tree = spo_segment.but(rollout=SegmentTree((3, 2), 2), credit=TreeChanges())
    learned = []
    train_toy(tree, steps=3, prompts=4, group=2, watch=lambda run, metrics, groups: learned.append((metrics, groups)))
    assert learned[-1][0]["nodes"] > learned[-1][0]["leaves"]
    inner = [t for _, groups in learned for g in groups if g.aside for t in g.trajectories]
    assert any((t.advantages != 0).any() for t in inner)


def test_answers_without_values_or_probabilities_are_refused():
    with pytest.raises(UserError, match="set --rollout MonteCarloValues"):
        train_toy(spo_segment.but(rollout=Auto()), steps=1)
    with pytest.raises(UserError, match="set --rollout SegmentTree"):
        TreeChanges().assign([toy_group(1, 0)], {})
