"""MMR1: scores by hand, where the problems of a batch come from, when scores are renewed and from which answers, and the base at lambda 0."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradus.curricula.rates import SuccessRates
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.mmr1_vas import VarianceAware, mmr1_vas, promise, scores_of
from gradus.recipe.core import changes
from gradus.testing.methods import ToySource, check_resumes, toy_trajectory, train_toy, weights_after
from gradus.types import Failed, FailureKind, Group, Key, UserError

SMALL = VarianceAware(samples=4, pool=6, every=2)


class Finite(ToySource):
    size = 3


class Given(VarianceAware):
    """Takes the scores as given, without a policy."""

    async def _scores(self, source, size, world):
        world.asked.append(size)
        return list(world.scores)


def chosen(scores, count=10, rule=None, state=None, source=None):
    notes = []
    world = SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4, scores=scores, asked=[], note=lambda name, value: notes.append(value))
    rule = rule or Given()
    requests, after = asyncio.run(rule.choose(source or Finite(), count, world, state or rule.start()))
    return [r.problem.id for r in requests], after, world.asked, notes


def test_scores_by_hand():
    assert promise(0.5, 0.4) == pytest.approx(0.28)  # .8 * .25 + .2 * .4
    assert promise(1.0, 0.4) == promise(0.0, 0.4) == pytest.approx(0.08)
    assert promise(0.5, 0.4, alpha=1.0, beta=0.0) == 0.25


def test_scores_of_answers():
    said = ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4])
    rows = [toy_trajectory(tokens, reward=r, name=f"t{i}") for i, (tokens, r) in enumerate(zip(said, (1, 0, 0)))]
    rows[2] = rows[2].but(reward=Failed(FailureKind.RAISED, "no"))
    found = scores_of([Group("p", tuple(rows))], 0.8, 0.2)
    assert found == {"p": pytest.approx(0.8 * 0.25 + 0.2 * 0.5)}  # the failed answer does not count


def test_half_of_the_batch_is_drawn_by_score():
    names, state, _, notes = chosen([0.0, 0.0, 1.0])
    last = Finite().draw([2], None, Key())[0].id
    assert names[:5] == [last] * 5
    assert sorted(names[5:8]) == sorted(p.id for p in Finite().draw([0, 1, 2], None, Key()))  # a pass
    assert state["drawn"] == 5
    assert np.mean(notes) == pytest.approx(np.mean([1.0 if n == last else 0.0 for n in names]))
    assert [len(chosen([1.0] * 3, count=n)[0]) for n in (1, 2, 7)] == [1, 2, 7]
    assert chosen([1.0] * 3, count=7)[1]["drawn"] == 4  # 7 - floor(3.5)


def test_problems_are_drawn_in_proportion_to_their_scores():
    names, *_ = chosen([0.1, 0.3, 0.0], count=8000)
    ids = [p.id for p in Finite().draw([0, 1, 2], None, Key())]
    assert [np.mean([n == i for n in names[:4000]]) for i in ids] == pytest.approx([0.25, 0.75, 0.0], abs=0.02)


def test_without_a_score_above_0_the_batch_is_uniform():
    names, state, *_ = chosen([0.0, 0.0, 0.0], count=6)
    assert state["drawn"] == 6
    assert sorted(names[:3]) == sorted(names[3:]) == sorted(p.id for p in Finite().draw([0, 1, 2], None, Key()))


def test_scores_are_renewed_every_so_many_steps():
    rule, state, asked = Given(every=3), None, []
    for _ in range(7):
        _, state, seen, _ = chosen([1.0, 0.0, 0.0], rule=rule, state=state)
        asked.append(len(seen))
    assert asked == [1, 0, 0, 1, 0, 0, 1]
    assert chosen([1.0] * 3, rule=Given(share=0.0))[2] == []  # no answers without a use


def test_a_run_samples_for_scores_and_never_trains_on_these_answers():
    seen = []
    run = train_toy(mmr1_vas.but(curriculum=SMALL), steps=4, watch=lambda run, row, groups: seen.append((row, groups)))
    assert [bool(row.get("tokens/probe")) for row, _ in seen] == [True, False, True, False]
    assert all(len(g.trajectories) == 4 and all(t.trained for t in g.trajectories) for _, groups in seen for g in groups)
    assert all(row["promise"] > 0 for row, _ in seen)
    state = run.memory.states["curriculum"]["state"]
    assert len(state["scores"]) == 6
    assert all(0 < score <= 0.4 for score in state["scores"])  # .8 / 4 + .2


def test_rescaled_scores_begin_at_0_and_end_at_1():
    run = train_toy(mmr1_vas.but(curriculum=replace(SMALL, rescaled=True)), steps=1)
    scores = run.memory.states["curriculum"]["state"]["scores"]
    assert (min(scores), max(scores)) == (0.0, 1.0)


def test_without_draws_by_score_it_is_grpo_over_the_same_pool():
    base = grpo.but(objective__kl=KL(0.01), curriculum=SuccessRates(factor=1, pool=6))
    ours, plain = (weights_after(r, steps=3)["policy.logits"] for r in (mmr1_vas.but(curriculum=replace(SMALL, share=0.0)), base))
    assert torch.equal(ours, plain)
    assert not torch.equal(weights_after(mmr1_vas.but(curriculum=SMALL), steps=3)["policy.logits"], plain)


def test_the_published_numbers():
    rule = mmr1_vas.curriculum
    assert (rule.alpha, rule.beta, rule.share, rule.samples, rule.every) == (0.8, 0.2, 0.5, 32, 35)
    assert set(changes(grpo, mmr1_vas)) == {"curriculum", "objective.kl.coefficient"}
    assert mmr1_vas.objective["kl"].coefficient == 0.01


def test_a_resumed_run_keeps_its_scores():
    check_resumes(mmr1_vas.but(curriculum=SMALL), steps=3, after=1)


@pytest.mark.parametrize("wrong", [{"share": 1.5}, {"samples": 1}, {"every": 0}, {"alpha": -1.0}, {"pool": 0}])
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(UserError, match="VarianceAware"):
        VarianceAware(**wrong)
