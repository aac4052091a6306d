"""Delethink: what a token weighs, one advantage for all chunks, the correction's cap, and that one chunk is GRPO."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.delethink import Chunked, carried, delethink
from gradus.recipe.registry import task_maker
from gradus.rewards.verified import Verified
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import (
    OTHER_A,
    TOY,
    check_bound_acts,
    readable,
    scripted_world,
    toy_run,
    toy_trajectory,
    train_toy,
    weights_after,
)
from gradus.types import Ended, Frozen, Group, Key, Problem, Request, Sampling, UserError, prompt_context
from gradus.types.batch import make_batch
from gradus.types.parts import Judgement
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


PROBLEM = Problem("p", "toy", text="q?")


@dataclass(frozen=True)
class One:
    async def score(self, groups, signals, world):
        return [[Judgement(1.0, Frozen(one=1.0)) for _ in g.trajectories] for g in groups]


def writer(text, rollout):
    """Goes on with `text` where the trace stands."""

    def speak(ask):
        tags = ask.request.tags
        return text[rollout.size + (tags[-1] - 1) * (rollout.size - rollout.carry) if "chunk" in tags else 0 :]

    return speak


def trace(rollout, text, *, count=1, **world):
    made, policy = scripted_world(TOY, writer(text, rollout), reward=One(), **world)
    (group,) = asyncio.run(rollout.run([Request(PROBLEM, count=count)], made))
    return group.trajectories, policy


def test_every_context_by_hand():
    ((trajectory,), _) = trace(Chunked(size=6, carry=4, head=0, limit=9), "abcdefghij")
    assert [readable(c.prefix) for c in trajectory.contexts] == ["q?", "q?cdef", "q?efgh", "q?ghij"]
    assert [readable(c.tokens) for c in trajectory.contexts] == ["abcdef", "gh", "ij", "|"]
    assert all(c.chosen.all() for c in trajectory.contexts)  # what is carried belongs to the prompt
    assert trajectory.completion == "abcdefghij"
    assert trajectory.ended is Ended.STOP
    assert trajectory.actions == 11
    assert trajectory.contexts[1].logprobs.tolist() == [-0.125, -0.25]  # as sampled in its own chunk


def test_the_head_stays_and_the_prompt_has_no_more_than_the_question_and_what_is_carried():
    ((trajectory,), _) = trace(Chunked(size=6, carry=4, head=1, limit=9), "abcdefghij")
    assert [readable(c.prefix) for c in trajectory.contexts] == ["q?", "q?adef", "q?afgh", "q?ahij"]


def test_a_tail_longer_than_the_last_chunk_reaches_back():
    ((trajectory,), _) = trace(Chunked(size=6, carry=5, head=0, limit=3), "abcdefghij")
    assert [readable(c.prefix) for c in trajectory.contexts] == ["q?", "q?bcdef", "q?cdefg"]


def test_tokens_are_carried_as_tokens():
    ((trajectory,), _) = trace(Chunked(size=4, carry=2, head=0, limit=3), "ab@ac")
    assert [readable(c.prefix) for c in trajectory.contexts] == ["q?", "q?@a"]  # the other a, not the one its text would give
    assert OTHER_A in trajectory.contexts[1].prefix
    assert trajectory.completion == "abaac"


def test_a_trace_is_cut_after_its_last_chunk():
    ((trajectory,), _) = trace(Chunked(size=4, carry=2, head=0, limit=3), "a" * 50)
    assert [c.actions for c in trajectory.contexts] == [4, 2, 2]
    assert trajectory.ended is Ended.LENGTH
    ((one,), _) = trace(Chunked(size=4, carry=2, head=0, limit=1), "a" * 50)
    assert [c.actions for c in one.contexts] == [4]


def test_the_budget():
    assert Chunked().budget == 24576  # 8192 + 4 * 4096
    assert Chunked(48, 24, 0, 8).budget == 216  # 48 + 7 * 24
    assert Chunked(at_test=9).test == Chunked(limit=9)
    assert Chunked().test == Chunked()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_every_trace_is(data):
    size = data.draw(st.integers(2, 12))
    carry = data.draw(st.integers(1, size - 1))
    rollout = Chunked(size, carry, data.draw(st.integers(0, carry - 1)), data.draw(st.integers(1, 6)))
    text = data.draw(st.text("ab@", max_size=60))
    ((trajectory,), _) = trace(rollout, text)
    said = np.concatenate([c.tokens for c in trajectory.contexts])
    assert readable(said) == (text + "|")[: rollout.budget]
    assert trajectory.ended is (Ended.STOP if len(text) < rollout.budget else Ended.LENGTH)
    assert all(len(c.sequence) <= 2 + size for c in trajectory.contexts)  # |q| + C
    done = 0
    for i, context in enumerate(trajectory.contexts):
        kept = context.prefix[2:]
        if i:
            assert len(kept) == carry
            assert kept.tolist() == [*said[: rollout.head], *said[done - (carry - rollout.head) : done]]
        assert context.parent[0].actions == 0
        done += context.actions


def test_nothing_is_carried_twice():
    assert carried(np.arange(3), 4, 1).tolist() == [0, 1, 2]
    assert carried(np.arange(9), 4, 1).tolist() == [0, 6, 7, 8]


def test_traces_advance_together_and_share_their_question():
    trajectories, policy = trace(Chunked(size=4, carry=2, head=0, limit=3), "a" * 50, count=3)
    assert policy.batches == [3, 3, 3]
    question = trajectories[0].contexts[0].parent[0]
    assert all(t.contexts[0].parent[0] is question for t in trajectories)
    assert all(c.parent[0].parent[0] is question for t in trajectories for c in t.contexts[1:])


def test_a_context_to_go_on_from_is_the_question():
    rollout = Chunked(size=4, carry=2, head=0)
    world, _ = scripted_world(TOY, writer("abcdef", rollout), reward=One())
    start = prompt_context([105, 106, 107])
    asked = Request(PROBLEM, prompt=start, at=2, sampling=Sampling(temperature=0.5, max_tokens=1))
    (group,) = asyncio.run(rollout.run([asked], world))
    assert [c.prefix[:2].tolist() for c in group.trajectories[0].contexts] == [[105, 106]] * 3
    assert [c.actions for c in group.trajectories[0].contexts] == [4, 2, 1]


def test_what_does_not_fit_is_said_before_anything_is_sampled():
    with pytest.raises(UserError, match=r"the prompt of problem p has 2 tokens, and with a chunk of 8192 tokens it does not fit into the model's"):
        trace(Chunked(), "a", context_length=512)
    ((trajectory,), _) = trace(Chunked(510, 4, 0), "a", context_length=512)
    assert trajectory.ended is Ended.STOP
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "a")
    with pytest.raises(UserError, match="answers in chunks"):
        asyncio.run(Chunked(4, 2, 0).run([Request(PROBLEM)], world))


@pytest.mark.parametrize("fields", [{"carry": 8192}, {"carry": 0}, {"head": 4096}, {"head": -1}, {"limit": 0}, {"at_test": 0}])
def test_sizes_that_make_no_sense(fields):
    with pytest.raises(UserError, match="chunks: "):
        Chunked(**fields)
