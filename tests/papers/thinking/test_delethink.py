"""Delethink: what a token weighs, one advantage for all chunks, the correction's cap, and that one chunk is GRPO."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.delethink import delethink
from gradus.recipe.registry import task_maker
from gradus.rewards.verified import Verified
from gradus.rollouts.chunked import Chunked
from gradus.testing.methods import check_bound_acts, scripted_world, toy_run, toy_trajectory, train_toy, weights_after
from gradus.types import Ended, Group, Key, Problem, Request, prompt_context
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb

SHORT = delethink.but(rollout=Chunked(size=3, carry=2, head=1, limit=4))


def chunked(lengths, advantage, *, name="t", behaviour=0.0):
    """A trajectory whose chunks have these lengths."""
    prompt = prompt_context([1])
    contexts = tuple(
        toy_trajectory([2] * n, prompt=replace(prompt_context([2, 2]), parent=(prompt, 1)) if i else prompt, logprobs=[behaviour] * n).contexts[
            0
        ]
        for i, n in enumerate(lengths)
    )
    made = toy_trajectory([2], name=name).but(contexts=contexts)
    return made.but(advantages=np.full(made.actions, advantage))


def batch_of(*trajectories):
    return make_batch([Group("g", trajectories)], dtype=torch.float64)


def test_a_token_weighs_one_over_the_trace():
    batch = batch_of(chunked([48, 24, 10], 1.0, name="a"), chunked([5], -1.0, name="b"))
    assert len(batch.contexts) == 4
    assert batch.actions == 48 + 24 + 10 + 5  # carried tokens are none of them
    logprobs = torch.zeros(87, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(delethink.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    # G = 2: each token of the first trace 1 / (2 * 82), of the second 1 / (2 * 5)
    assert_close(logprobs.grad, torch.tensor([-1 / 164] * 82 + [1 / 10] * 5, dtype=torch.float64))


def test_the_correction_is_capped_at_two():
    # pi_old / pi_behaviour = e^0.5 = 1.65 in one trace, e^3, held at 2, in the other; ratio 1, A = 1
    batch = batch_of(chunked([1, 1], 1.0, name="a", behaviour=-0.5), chunked([4], 1.0, name="b", behaviour=-3.0))
    loss, _ = evaluate(delethink.objective, {LogProb(): torch.zeros(6, dtype=torch.float64)}, batch)
    assert_close(loss.item(), -(math.exp(0.5) + 2.0) / 2)


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(0)
    traces = [chunked(lengths, a, name=str(i)) for i, (lengths, a) in enumerate((([3, 2, 1], 0.7), ([2], -1.2), ([3, 1], 0.5)))]
    batch = batch_of(*traces)
    batch = replace(batch, old={LogProb(): torch.from_numpy(rng.normal(size=12) * 0.8)})  # against behaviour log-probabilities of 0
    logprobs = batch.old_logprobs + torch.from_numpy(rng.normal(size=12) * 0.4)
    loss, _ = evaluate(delethink.objective, {LogProb(): logprobs}, batch)
    total, at = 0.0, 0
    for trace in traces:
        length = sum(len(chunk.tokens) for chunk in trace.contexts)
        for chunk in trace.contexts:
            for _ in chunk.tokens:
                new, old, a = logprobs[at].item(), batch.old_logprobs[at].item(), trace.advantages[0]
                ratio = math.exp(new - old)
                total -= min(math.exp(old), 2.0) * min(ratio * a, min(max(ratio, 0.8), 1.26) * a) / length / 3
                at += 1
    assert_close(loss.item(), total)


def test_all_chunks_share_the_advantage_of_the_trace():
    right, wrong = chunked([3, 2], 0.0, name="a").but(reward=1.0), chunked([3], 0.0, name="b").but(reward=0.0)
    assert [c.advantages.tolist() for c in delethink.credit.assign([Group("g", (right, wrong))], {})[0]] == [[1.0] * 5, [-1.0] * 3]


def test_one_chunk_without_correction_is_grpo():
    plain = delethink.but(rollout=Chunked(size=6, carry=3, head=0, limit=1), reward=Verified(), objective__policy__weight=None)
    plain = plain.but(objective__policy__trust=grpo.objective["policy"].trust, update=grpo.update)
    base = grpo.but(objective__kl=None, players__reference=None)
    ours, theirs = (weights_after(r, steps=2, max_tokens=6)["policy.logits"] for r in (plain, base))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(SHORT, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_two_steps_of_the_loop():
    steps = []
    run = train_toy(SHORT, steps=2, watch=lambda run, metrics, groups: steps.append((metrics, groups)))
    assert run.players["policy"].updates == 4  # two a step
    traces = [t for _, groups in steps for g in groups for t in g.trajectories]
    assert any(len(t.contexts) == 4 for t in traces)
    for t in traces:
        assert all(len(c.sequence) <= 1 + 3 for c in t.contexts)
        assert t.reward == (t.components["verified"] if t.ended is Ended.STOP else 0.0)
        assert len(set(t.advantages.tolist())) == 1
        assert len(t.advantages) == sum(c.actions for c in t.contexts)
    assert any(t.components["verified"] == 1.0 and t.reward == 0.0 for t in traces)  # right, but never ended
    assert steps[0][0]["tokens/rollout"] == sum(t.actions for g in steps[0][1] for t in g.trajectories)


def test_two_updates_of_a_batch_and_the_clip_acts():
    check_bound_acts(SHORT, updates=2, learning_rate=0.3, group=8, prompts=8)


def test_evaluation_may_have_more_chunks():
    run = toy_run(SHORT.but(rollout__at_test=8))
    asked, world = Request(Problem("p", "toy", text="c", answer="b"), count=64), run.world(run.recipe, "evaluate")
    (found,) = asyncio.run(run.memory.peek("rollout", run.recipe.rollout.test, "run", [asked], world))
    assert 4 < max(len(t.contexts) for t in found.trajectories) <= 8


def test_it_learns():
    seen = []
    train_toy(SHORT, steps=20, prompts=6, group=8, learning_rate=0.2, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-5:]) > np.mean(seen[:5]) + 0.15


def test_its_task_needs_resets_and_can_be_solved_through_them():
    task = task_maker("running_sum")()
    (problem,) = task.source.draw([0], 20, Key(0))
    solution = problem.meta["solution"]
    assert delethink.rollout == Chunked(size=48, carry=24, head=0, limit=8)
    assert delethink.rollout.budget == 48 + 7 * 24
    assert 48 < len(solution) <= delethink.rollout.budget

    def speak(ask):
        tags = ask.request.tags
        return solution[48 + 24 * (tags[-1] - 1) if "chunk" in tags else 0 :]

    world, _ = scripted_world(task, speak, reward=delethink.reward)
    (found,) = asyncio.run(delethink.rollout.run([Request(problem)], world))
    assert found.trajectories[0].reward == 1.0
    assert len(found.trajectories[0].contexts) == 2  # one reset
