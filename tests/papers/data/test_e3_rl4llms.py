"""E3-RL4LLMs: the temperature by hand, its target, who gets how many answers pass by pass, the limit."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.curricula.allotment import ByRank
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.e3_rl4llms import e3_rl4llms
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.steady_entropy import SteadyEntropy, annealed, steered
from gradus.testing.methods import check_resumes, steps_of, train_toy, weights_after

SMALL = e3_rl4llms.but(curriculum__pool=8, schedule__vocabulary=8)


def test_a_run_samples_and_reads_at_the_steered_temperature():
    used, entropies = [], []

    def watch(run, metrics, groups):
        used.append({c.temperature for g in groups for t in g.trajectories for c in t.contexts})
        entropies.append(metrics["entropy"])

    train_toy(SMALL, steps=6, learning_rate=0.2, watch=watch)
    value, due = 1.0, [1.0]
    for step, entropy in enumerate(entropies[:-1], 1):
        if step > 1:
            value = steered(value, entropy, entropies[0] * annealed(SteadyEntropy().ended(step - 1, 6), 0.9), 8)
        due.append(value)
    assert [list(found) for found in used] == [[pytest.approx(v)] for v in due]
    assert len({round(v, 6) for v in due}) > 3


def test_the_answers_of_a_step_follow_the_ranks_and_the_pass():
    known, seen = {}, set()
    for step, (_, groups) in enumerate(steps_of(SMALL, steps=6, prompts=4, group=6)):
        names = [g.trajectories[0].problem.id for g in groups]
        sizes = [len(g.trajectories) for g in groups]
        passes = step // 2  # two steps of four problems are a pass over eight
        assert sum(sizes) == 24
        assert min(sizes) >= max(4, 6 - 2 * passes)
        assert max(sizes) <= min(12, 6 + 2 * passes)
        assert passes or sizes == [6] * 4
        if passes:
            shares = [known[name][0] / sum(known[name]) for name in names]
            easiest, hardest = max(range(4), key=shares.__getitem__), min(range(4), key=shares.__getitem__)
            assert sizes[hardest] >= sizes[easiest]
        for name, g in zip(names, groups, strict=True):
            right = sum(t.right for t in g.trajectories)
            old = known.get(name, (0, 0))
            known[name] = (old[0] + right, old[1] + len(g.trajectories) - right)
        seen |= set(sizes)
    assert len(seen) > 2


def test_the_numbers_of_the_scripts():
    assert e3_rl4llms.curriculum.allot == ByRank(low=4, high=12, step=2)
    assert (e3_rl4llms.schedule.end, e3_rl4llms.schedule.factor, e3_rl4llms.setting.temperature) == (0.4, 0.9, 1.0)
    assert e3_rl4llms.curriculum.keep == 1.0
    assert "kl" not in e3_rl4llms.objective


def test_without_its_two_parts_it_is_grpo_without_a_kl():
    plain = grpo.but(objective__kl=None, players__reference=None)
    ours = e3_rl4llms.but(schedule=ConstantSchedule(), curriculum__allot=None, curriculum__pool=None)
    base = weights_after(plain, steps=3)["policy.logits"]
    assert torch.equal(weights_after(ours, steps=3)["policy.logits"], base)
    assert not torch.equal(weights_after(SMALL, steps=3)["policy.logits"], weights_after(SMALL.but(schedule=ConstantSchedule()), steps=3)["policy.logits"])


def test_a_run_resumes_with_its_temperature():
    check_resumes(SMALL, steps=5, after=3)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(SMALL, steps=4, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
