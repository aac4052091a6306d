"""ReMA: the ratio of a turn, its cap, the mean over turns, what has no loss, and the alternation of separate agents."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.multi_agent.rema import TurnMean, TurnRatio, rema
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.seats import Seats
from gradus.testing.methods import check_bound_acts, check_same_update, scripted_context
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go
from gradus.types import Frozen, Group, Problem, Trajectory, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from tests.papers.multi_agent.test_at_grpo import TASK


def dialogue(name, lengths, advantage, *, contexts=False):
    """A trajectory whose turns have these numbers of tokens; with `contexts`, each turn has a context of its own."""
    rows = [[n] for n in lengths] if contexts else [list(lengths)]
    first, made = 0, []
    for row in rows:
        streams = Frozen(turn=np.repeat(np.arange(first, first + len(row)), row))
        made.append(replace(scripted_context("a" * sum(row)), streams=streams))
        first += len(row)
    return Trajectory(name, Problem("p", "t"), tuple(made), reward=0.0, advantages=np.full(sum(lengths), float(advantage)))


def measured(moves, *dialogues, objective=rema.objective):
    """The loss and its gradient with respect to the log-ratios `moves`."""
    batch = make_batch([Group("g", dialogues)], {}, dtype=torch.float64)
    batch = replace(batch, old={LogProb(): torch.zeros(len(moves), dtype=torch.float64)})
    rows = torch.tensor(moves, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(objective, {LogProb(): rows}, batch)
    loss.backward()
    return loss.item(), rows.grad.tolist()


def test_a_turn_of_two_tokens_is_clipped_as_a_whole():
    # the mean of .1 and .3 is .2, and exp(.2) = 1.2214 is above 1.2: the loss is -1.2, and nothing has a gradient
    loss, slopes = measured([0.1, 0.3], dialogue("a", [2], 1))
    assert loss == pytest.approx(-1.2)
    assert slopes == [0.0, 0.0]
    tokens = rema.but(objective__policy__ratio=TokenRatio()).objective
    loss, slopes = measured([0.1, 0.3], dialogue("a", [2], 1), objective=tokens)
    assert loss == pytest.approx(-(math.exp(0.1) + 1.2) / 2)
    assert slopes == pytest.approx([-math.exp(0.1) / 2, 0.0])  # the first token, 1.105, is within the clip


def test_the_gradient_within_the_clip_is_shared_by_the_turn():
    loss, slopes = measured([0.3, -0.1], dialogue("a", [2], 1))  # exp(.1) = 1.1052
    assert loss == pytest.approx(-math.exp(0.1))
    assert slopes == pytest.approx([-math.exp(0.1) / 2] * 2)


def test_the_cap_holds_the_mean_and_stops_the_gradient():
    batch = make_batch([Group("g", (dialogue("a", [2, 1], 1),))], {}, dtype=torch.float64)
    rows = torch.tensor([2.0, 6.0, 2.9], dtype=torch.float64, requires_grad=True)
    found = TurnRatio().log_ratio(rows, torch.zeros(3, dtype=torch.float64), batch)
    assert found.tolist() == [3.0, 3.0, 2.9]  # the mean 4 is cut to 3; one token of 6 alone is not
    found.sum().backward()
    assert rows.grad.tolist() == [0.0, 0.0, 1.0]
    low = TurnRatio().log_ratio(torch.tensor([-9.0, -9.0, -4.0], dtype=torch.float64), torch.zeros(3, dtype=torch.float64), batch)
    assert low.tolist() == [-9.0, -9.0, -4.0]  # from above only


def test_a_negative_advantage_has_a_loss_of_at_most_three():
    loss, slopes = measured([2.0, 2.0], dialogue("a", [2], -1))  # exp(2) = 7.389 > 3
    assert (loss, slopes) == (3.0, [0.0, 0.0])


@pytest.mark.parametrize("contexts", [False, True])
def test_the_mean_over_turns_and_then_over_dialogues(contexts):
    a, b = dialogue("a", [1, 3], 1, contexts=contexts), dialogue("b", [2], 1, contexts=contexts)
    batch = make_batch([Group("g", (a, b))], {}, dtype=torch.float64)
    # two dialogues; a has 2 turns of 1 and 3 tokens, b has 1 turn of 2 tokens
    due = [1 / 4] + [1 / 12] * 3 + [1 / 4] * 2
    assert_close(TurnMean().coefficients(batch, "policy"), torch.tensor(due, dtype=torch.float64))
    assert sum(due) == pytest.approx(1)
    if contexts:  # a slice of the batch keeps the counts of the whole batch
        piece, index = batch.slice([1])
        assert_close(TurnMean().coefficients(piece, "policy"), torch.tensor(due, dtype=torch.float64)[index])


def test_words_of_the_other_agent_and_the_problem_have_no_loss():
    run = toy_run(rema.but(update__count=1), task=TASK, steps=1, prompts=2, group=4)
    seen = []
    run.on_step = lambda run, metrics, groups: seen.extend(t for g in groups for t in g.trajectories)
    go(run)
    assert {t.links["role"] for t in seen} == {"A", "B"}
    for t in seen:
        (context,) = t.contexts
        assert t.advantages.shape == (context.chosen.sum(),)  # only the agent's own tokens
        assert len(context.tokens) > context.chosen.sum()  # the words of the other agent stand between
        assert set(t.advantages) == {t.advantages[0]}  # one number for all turns of the dialogue


def test_its_changes_and_the_limit_at_which_it_is_grpo_on_seats():
    objective = {"objective.policy.ratio.cap", "objective.policy.ratio.against"}
    found = set(changes(grpo, rema))
    assert {"rollout", "reward", "objective.policy.ratio", "objective.policy.trust", "objective.policy.average", "update.count"} <= found | objective
    base = grpo.but(rollout=Seats(), reward=EnvironmentReturn(), objective__kl=None, players__reference=None, update__count=4)
    plain = rema.but(objective__policy__ratio=TokenRatio(), objective__policy__trust=Clip(), objective__policy__average=SequenceMean())
    check_same_update(plain, base, task=TASK)


def test_the_clip_acts_from_the_second_mini_batch_on():
    check_bound_acts(rema, updates=4, task=TASK, learning_rate=0.1)


def test_a_cap_of_zero_is_refused():
    with pytest.raises(UserError, match="cap"):
        TurnRatio(cap=0.0)
