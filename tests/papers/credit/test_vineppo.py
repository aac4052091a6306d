"""VinePPO: advantages of steps by hand, continuations without gradient, a deterministic policy, and the loss as plain loops."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.terms import evaluate
from gradus.papers.credit.vineppo import vineppo
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.testing.methods import TOY, advantages_of, scripted_context, scripted_world, toy_run, toy_trajectory, train_toy, weights_after
from gradus.types import Frozen, Group, Key, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs
from gradus.types.spans import STEPS, Separated

BARE = vineppo.but(credit__whitened=False, rollout__count=4, rollout__marking=Separated(" "))


def played(recipe, answers, then):
    """A group of these answers. `then`(tokens before, number) is the text of a continuation; a text with the letter b is right."""
    given, counted = iter(answers), {}

    def speak(ask):
        if "value" not in ask.request.tags:
            return next(given)
        at = ask.at - len(ask.parent.prefix)
        counted[at] = counted.get(at, -1) + 1
        return then(at, counted[at])

    world, _ = scripted_world(TOY, speak, reward=Verified())
    request = Request(TOY.source.draw([0], None, Key())[0], count=len(answers))
    return asyncio.run(recipe.rollout.run([request], world))[0]


def test_advantages_by_hand():
    # K = 4: 2 of 4 at the prompt, 3 of 4 after the first step, and the answer is wrong
    group = played(BARE, ["a c"], lambda at, n: "b" if n < {0: 2, 2: 3}[at] else "c")
    assert advantages_of(BARE.credit, group) == [[[0.25, 0.25, -0.75, -0.75]]]
    assert 0.25 - 0.75 == 0 - 0.5  # R - V(s_0)


def test_values_as_sure_as_the_policy_give_no_advantage():
    group = played(BARE, ["a b c", "c c"], lambda at, n: "b")
    assert advantages_of(BARE.credit, group)[0][0] == [0.0] * 6  # always right: V is 1 everywhere, and so is R
    run = toy_run(BARE.but(rollout__marking=Separated("b")))
    run.players["policy"].policy.network.logits.data = torch.eye(8, dtype=torch.float64).roll(1, 1) * 1000  # each letter follows the one before
    requests = [Request(p, count=2) for p in TOY.source.draw([0, 1, 2], None, Key())]
    groups = asyncio.run(BARE.but(rollout__marking=Separated("[bcd]")).rollout.run(requests, run.at(0)[1]))
    assert max(t.actions for g in groups for t in g.trajectories) > 1
    for rows in advantages_of(BARE.credit, *groups):
        assert all(a == 0 for row in rows for a in row)


def test_steps_of_arithmetic_and_of_lines():
    def cut(text):
        return [text[a:b] for a, b in STEPS.regions(text)]

    assert cut("7+5=12 4+8+1=13 3+2+1=6 =632") == ["7+5=12 ", "4+8+1=13 ", "3+2+1=6 ", "=632"]
    assert cut("12-5=7 =-3") == ["12-5=7 ", "=-3"]
    assert cut("So 3 apples.\nThen 4 more\n\n#### 7") == ["So 3 apples.\n", "Then 4 more\n\n", "#### 7"]
    assert scripted_context("a").actions == 1


def test_the_tokens_of_continuations_have_no_part_in_the_loss():
    """Values are equal, the continuations' texts are not: the same batch, the same loss and the same gradient."""
    found = []
    for filler in ("b", "bccd", "cbcbcb"):
        group = played(vineppo.but(rollout__marking=Separated(" ")), ["a c", "b a", "c"], lambda at, n, filler=filler: filler if n < 4 else "c" * len(filler))
        credited = [t.but(advantages=c.advantages) for t, c in zip(group.trajectories, vineppo.credit.assign([group], {})[0], strict=True)]
        reference = {t.id: np.full(t.actions, -0.5) for t in credited}
        batch = make_batch([group.but(trajectories=tuple(credited))], {LogProbs(player="reference"): reference}, dtype=torch.float64)
        logprobs = torch.linspace(-1, -0.1, batch.actions, dtype=torch.float64).requires_grad_()
        loss, _ = evaluate(vineppo.objective, {LogProb(): logprobs}, batch)
        loss.backward()
        found.append((batch.actions, loss.item(), logprobs.grad.tolist()))
    assert found[0] == found[1] == found[2]
    assert any(found[0][2])


def test_with_other_credit_the_continuations_change_nothing():
    other = vineppo.but(credit=GroupRelative(), rollout__count=2)
    plain = other.but(rollout=Auto())
    ours, theirs = (weights_after(r, steps=2)["policy.logits"] for r in (other, plain))
    assert torch.equal(ours, theirs)
    assert not torch.equal(weights_after(vineppo.but(rollout__count=2), steps=2)["policy.logits"], theirs)


def test_the_loss_and_its_gradient_equal_plain_loops():
    steps, values, rewards = [[0, 0, 1], [0]], [[0.5, 0.75], [0.5]], [0.0, 1.0]
    made = []
    for i, (row, value, reward) in enumerate(zip(steps, values, rewards, strict=True)):
        t = toy_trajectory([2] * len(row), reward=reward, name=str(i))
        streams = Frozen(span=np.array(row, np.int32), value=np.array([value[s] for s in row]))
        made.append(t.but(contexts=(replace(t.contexts[0], streams=streams),)))
    credited = tuple(t.but(advantages=c.advantages) for t, c in zip(made, vineppo.credit.assign([Group("g", tuple(made))], {})[0], strict=True))
    rng = np.random.default_rng(0)
    reference = {t.id: rng.normal(size=t.actions) for t in credited}
    batch = make_batch([Group("g", credited)], {LogProbs(player="reference"): reference}, dtype=torch.float64)
    old = torch.from_numpy(rng.normal(size=4))
    batch = replace(batch, old={LogProb(): old})
    logprobs = (old + torch.tensor([0.3, -0.4, 0.1, 0.5])).requires_grad_()
    loss, metrics = evaluate(vineppo.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    bare = [0.25, 0.25, -0.75, 0.5]  # .75 - .5 twice, 0 - .75, 1 - .5; mean 1/16
    mean = sum(bare) / 4
    unit = math.sqrt(sum((a - mean) ** 2 for a in bare) / 4)
    flat_reference = np.concatenate([reference["0"], reference["1"]])

    def slow(rows):
        total = 0.0
        for row, before, a, ref in zip(rows, old.tolist(), bare, flat_reference, strict=True):
            own, ratio, d = (a - mean) / unit, math.exp(row - before), ref - row
            total += -min(ratio * own, min(max(ratio, 0.8), 1.2) * own) / 4 + 0.0001 * (math.exp(d) - d - 1) / 2  # tokens; answers
        return total

    rows = logprobs.tolist()
    assert_close(loss.item(), slow(rows))
    for i in range(4):
        up, down = ([v + h * (j == i) for j, v in enumerate(rows)] for h in (1e-6, -1e-6))
        assert logprobs.grad[i].item() == pytest.approx((slow(up) - slow(down)) / 2e-6, abs=1e-7)
    assert metrics["clip_share"].mean > 0


def test_toy_steps_have_values_and_clip():
    seen = []
    cut = vineppo.but(rollout__marking=Separated("[bc]"))
    run = train_toy(cut, steps=4, prompts=4, group=8, learning_rate=0.1, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert run.players["policy"].updates == 4 * 16
    assert (vineppo.rollout.count, vineppo.objective["kl"].coefficient) == (9, 0.0001)
    assert set(run.players) == {"policy", "reference"}
    assert np.mean([metrics["clip_share"] for metrics, _ in seen]) > 0
    assert all(0 < metrics["spread"] < 0.5 and 0 < metrics["value"] < 1 for metrics, _ in seen)
    rows = [t.advantages for _, groups in seen for g in groups for t in g.trajectories]
    assert any(len(set(row.tolist())) > 1 for row in rows)


def test_answers_without_values_are_refused():
    with pytest.raises(UserError, match="set --rollout MonteCarloValues"):
        train_toy(vineppo.but(rollout=Auto()), steps=1)
