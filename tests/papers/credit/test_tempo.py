"""TEMPO: the values of prefixes by hand, the advantage of every token, the loss against plain loops, and what the tree does with prompts and turns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.tempo import PrefixTree, tempo
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import advantages_of, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import Context, Group, UserError, prompt_context
from gradus.types.batch import make_batch
from gradus.types.contexts import Seen
from gradus.types.signals import LogProb


def group_of(words, rewards, **more):
    """A group of answers to one prompt; every letter is a token."""
    return Group("g", tuple(toy_trajectory([ord(c) for c in w], reward=r, name=f"g/{i}", **more) for i, (w, r) in enumerate(zip(words, rewards))))


def test_advantages_by_hand():
    # mean .25, std sqrt(3)/4 = .4330; a: .75 + .25, b: .75 + .5; c: -.25 - .5; d: -.25 - .25, e and f: -.25
    (rows,) = advantages_of(PrefixTree(), group_of(["ab", "ac", "de", "df"], [1, 0, 0, 0]))
    due = [[2.3094, 2.8868], [0.0, -1.7321], [-1.1547, -0.5774], [-1.1547, -0.5774]]
    assert_close(np.array(rows), np.array(due), rtol=0, atol=5e-5)


def test_without_a_shared_first_token_the_first_token_counts_twice():
    (rows,) = advantages_of(PrefixTree(), group_of(["abc", "bbc"], [1, 0]))
    assert rows == [[2.0, 1.0, 1.0], [-2.0, -1.0, -1.0]]  # r - mean = +-.5, std .5


def test_a_group_that_says_the_same_or_earns_the_same_gets_nothing_from_the_tree():
    assert advantages_of(PrefixTree(), group_of(["ab", "ab"], [1, 1])) == [[[0.0, 0.0]] * 2]  # a chain
    assert advantages_of(PrefixTree(), group_of(["ab", "cd"], [1, 1])) == [[[0.0, 0.0]] * 2]
    assert advantages_of(PrefixTree(), group_of(["ab", "ab"], [1, 0])) == [[[1.0, 1.0], [-1.0, -1.0]]]  # one answer, two rewards: no branch
    assert advantages_of(PrefixTree(), group_of(["ab"], [1])) == [[[0.0, 0.0]]]


def test_scale_divides_both_parts():
    made = group_of(["ab", "ac", "de"], [1, 0, 0])
    plain, half, sample = (advantages_of(PrefixTree(scale=s), made)[0] for s in ("none", "population", "sample"))
    rewards = np.array([1.0, 0, 0])
    for a, b, c in zip(plain, half, sample, strict=True):
        assert_close(np.array(a) / rewards.std(), np.array(b))
        assert_close(np.array(a) / rewards.std(ddof=1), np.array(c))


def test_deciding_tokens_stand_out():
    """Of six tokens one decides about the reward, and another differs without effect. The area under ROC of |A| within answers is at least 0.7."""
    rng, above = np.random.default_rng(0), []
    for _ in range(50):
        decides, idle = rng.choice(6, 2, replace=False)
        words, rewards = [], []
        for _ in range(8):
            word = list("abcdef")
            word[decides], word[idle] = "xy"[rng.integers(2)], "uv"[rng.integers(2)]
            words.append("".join(word))
            rewards.append(float(word[decides] == "x"))
        (rows,) = advantages_of(PrefixTree(), group_of(words, rewards))
        for row in np.abs(rows):
            above += [(row[decides] > other) + 0.5 * (row[decides] == other) for k, other in enumerate(row) if k != decides]
    assert 0.7 < np.mean(above) < 1
    (rows,) = advantages_of(GroupRelative(), group_of(words, rewards))
    assert all(len(set(row)) == 1 for row in rows)


def test_prompts_are_not_compared_with_each_other():
    words, rewards = ["ab", "ac", "ab", "ac"], [1, 0, 0, 0]
    other = prompt_context([9])
    first, second = group_of(words[:2], rewards[:2]), group_of(words[2:], rewards[2:], prompt=other)
    (rows,) = advantages_of(PrefixTree(scale="none"), Group("g", first.trajectories + second.trajectories))
    assert rows == [[0.75, 1.25], [-0.25, -0.75], [-0.25, -0.25], [-0.25, -0.25]]  # the second tree holds only zeros


def told(*pieces, reward, name):
    """An answer in pieces: upper case is the environment's, the rest are actions."""
    text = "".join(pieces)
    t = toy_trajectory([ord(c) for c in text], reward=reward, name=name)
    chosen = np.array([c.islower() for c in text])
    context = replace(t.contexts[0], chosen=chosen, logprobs=np.zeros(chosen.sum(), np.float32), versions=np.zeros(chosen.sum(), np.int32))
    return t.but(contexts=(context,))


def test_a_change_that_the_environment_makes_is_no_action_s():
    made = Group("g", (told("aXb", reward=1.0, name="0"), told("aYb", reward=0.0, name="1")))
    assert advantages_of(PrefixTree(scale="none"), made) == [[[0.5, 0.5], [-0.5, -0.5]]]
    told_first = Group("g", (told("Xab", reward=1.0, name="0"), told("Yab", reward=0.0, name="1")))
    assert advantages_of(PrefixTree(scale="none"), told_first) == [[[0.5, 0.5], [-0.5, -0.5]]]  # two trees of one answer each


def test_pictures_that_differ_are_other_prefixes():
    def shown(value, reward, name):
        t = told("aXb" if value else "aXc", reward=reward, name=name)
        seen = Seen("image", "image", np.full((1, 2, 2, 3), value, np.uint8), np.array([1], np.int32), np.array([1], np.int32))
        return t.but(contexts=(replace(t.contexts[0], seen=(seen,)),))

    made = Group("g", (shown(0, 1.0, "0"), shown(7, 0.0, "1")))
    assert advantages_of(PrefixTree(scale="none"), made) == [[[0.5, 0.5], [-0.5, -0.5]]]  # the picture parts them, not the token after it


def test_the_contexts_of_a_trajectory_each_have_their_tree():
    a, b = group_of(["ab", "ac"], [1, 0]).trajectories
    later: Context = toy_trajectory([7, 8], prompt=prompt_context([5])).contexts[0]
    made = Group("g", (a.but(contexts=(*a.contexts, later)), b))
    assert advantages_of(PrefixTree(scale="none"), made) == [[[0.5, 1.0, 0.5, 0.5], [-0.5, -1.0]]]  # the later one is alone in its tree


def test_without_the_weight_it_is_the_group_relative_advantage():
    made = group_of(["ab", "ac", "de"], [1, 0.5, 0])
    assert advantages_of(PrefixTree(weight=0.0), made) == advantages_of(GroupRelative(), made)
    base = grpo.but(
        objective__policy__trust=Clip(0.2, 0.28), objective__policy__average=TokenMean(), objective__kl=None, players__reference=None, update__count=8
    )
    ours, theirs = (weights_after(r, steps=2)["policy.logits"] for r in (tempo.but(credit__weight=0.0), base))
    assert torch.equal(ours, theirs)
    assert not torch.equal(weights_after(tempo, steps=2)["policy.logits"], theirs)


def test_the_loss_and_its_gradient_equal_plain_loops():
    words, rewards = ["ab", "acd", "de", "df"], [1, 0, 0.5, 0]
    made = group_of(words, rewards)
    credited = tuple(t.but(advantages=c.advantages) for t, c in zip(made.trajectories, tempo.credit.assign([made], {})[0], strict=True))
    batch = make_batch([made.but(trajectories=credited)], dtype=torch.float64)
    rng = np.random.default_rng(1)
    old = torch.from_numpy(rng.normal(size=9))
    batch = replace(batch, old={LogProb(): old})
    logprobs = (old + torch.from_numpy(rng.normal(size=9) * 0.4)).requires_grad_()
    loss, _ = evaluate(tempo.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    total, slopes, at = 0.0, [], 0
    for word, reward in zip(words, rewards, strict=True):
        for t in range(len(word)):
            before, after = (np.mean([r for w, r in zip(words, rewards, strict=True) if w[:n] == word[:n]]) for n in (t, t + 1))
            a = (reward - np.mean(rewards) + after - before) / np.std(rewards)
            ratio = math.exp(logprobs[at].item() - old[at].item())
            clipped = min(max(ratio, 0.8), 1.28)
            total -= min(ratio * a, clipped * a) / 9
            slopes.append(-ratio * a / 9 if ratio * a <= clipped * a else 0.0)
            at += 1
    assert_close(loss.item(), total)
    assert_close(logprobs.grad, torch.tensor(slopes, dtype=torch.float64))
    assert 0.0 in slopes  # the clip acts on some tokens


def test_toy_steps_branch_and_clip():
    seen = []
    train_toy(tempo, steps=6, prompts=4, group=8, learning_rate=0.3, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert np.mean([metrics["clip_share"] for metrics, _ in seen]) > 0
    rows = [t.advantages for _, groups in seen for g in groups for t in g.trajectories if t.advantages is not None]
    assert any(len(set(row.tolist())) > 1 for row in rows)


def test_numbers_as_actions_are_refused():
    with pytest.raises(UserError, match="PrefixTree compares tokens"):
        tempo.credit.check_task(flow_2d())
    with pytest.raises(UserError, match="weight"):
        PrefixTree(weight=-1.0)
    assert tempo.credit.check_task(train_toy(tempo, steps=1).task) is None
    assert advantages_of(tempo.credit, toy_group(1, 0)) == [[[1.0, 1.0], [-1.0, -1.0]]]
