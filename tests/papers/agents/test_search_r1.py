"""Search-R1: the exact match, the tokens that are learned, the limit of actions, and the hint."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.gae import GAE
from gradus.papers.agents.search_r1 import search_r1
from gradus.rewards.overlap import Matches
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.batches import evaluated
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Context, Frozen, Group, Key, Problem, Request, Trajectory, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs, Values

TASK = replace(search_qa(1, people=40, instruction=False), environment=search_r1.environment)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
SEARCH = f"<search>{PROBLEM.meta['demonstration'][0][1].removeprefix('search: ')}</search>"


def played(script: list[str]):
    world, policy = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=search_r1.reward)
    (group,) = asyncio.run(search_r1.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


@pytest.mark.parametrize(("said", "reward"), [("The Eiffel Tower.", 1.0), ("eiffel  tower", 1.0), ("tower", 0.0), ("", 0.0)])
def test_exact_match_by_hand(said, reward):
    assert Matches()(Problem("p", "t", answer="Eiffel Tower"), said) == reward
    assert Matches("f1")(Problem("p", "t", answer="eiffel tower"), "tower") == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="exct"):
        Matches("exct")


def test_passages_stand_between_tags_and_are_not_learned():
    one, policy = played([f"I think {SEARCH} and more", f"<answer>{PROBLEM.answer}</answer>"])
    (context,) = one.contexts
    inserted = policy.text(context.tokens[~context.chosen])
    assert inserted.startswith("<information>")
    assert inserted.endswith("</information>")
    assert str(PROBLEM.answer) in inserted
    assert inserted.count("\n") == 2  # three passages
    assert policy.text(context.tokens[context.chosen]) == f"I think {SEARCH}<answer>{PROBLEM.answer}</answer>"
    assert one.reward == 1.0


def test_only_the_first_tag_of_a_piece_acts():
    one, _ = played([f"{SEARCH}<answer>{PROBLEM.answer}</answer>", "<answer>no</answer>"])
    assert one.links["turns"] == 2
    assert one.reward == 0.0


def context_of(retrieved: int) -> Context:
    """40 tokens of the policy and 25 retrieved tokens with the id `retrieved`."""
    chosen = np.array([True] * 20 + [False] * 25 + [True] * 20)
    tokens = np.where(chosen, 1, retrieved).astype(np.int32)
    return Context(tokens, chosen, np.full(40, -1.0, np.float32), np.zeros(40, np.int32))


def test_forty_tokens_of_the_policy_have_credit_and_loss():
    values, slopes = np.linspace(0.0, 0.78, 40), []
    for retrieved in (2, 3):
        trajectory = Trajectory("t", PROBLEM, (context_of(retrieved),), reward=1.0)
        even = {"t": np.full(40, -1.0)}
        signals = {LogProbs(): even, LogProbs(player="reference"): even, Values(player="critic"): {"t": values}}
        ((credited,),) = search_r1.credit.assign([Group("g", (trajectory,))], signals)
        plain = 1 - values  # gamma = lambda = 1, and no KL
        np.testing.assert_allclose(credited.advantages, (plain - plain.mean()) / plain.std(), atol=1e-5)
        batch = make_batch([Group("g", (trajectory.but(advantages=credited.advantages),))])
        found = evaluated(search_r1.objective["policy"], {LogProb(): torch.linspace(-2.0, -1.0, 40)}, batch)
        slopes.append(found.gradient[LogProb()].tolist())
    assert slopes[0] == slopes[1]
    np.testing.assert_allclose(slopes[0], -credited.advantages / 40, rtol=1e-5)  # the first update: ratio 1


def test_the_kl_penalty_has_one_term_for_each_token_of_the_policy():
    trajectory = Trajectory("t", PROBLEM, (context_of(2),), reward=1.0)
    signals = {
        LogProbs(): {"t": np.full(40, -1.0)}, LogProbs(player="reference"): {"t": np.full(40, -1.5)}, Values(player="critic"): {"t": np.zeros(40)},
    }  # fmt: skip
    ((credited,),) = search_r1.credit.assign([Group("g", (trajectory,))], signals)
    np.testing.assert_allclose(credited.returns, 1 - 0.0005 * np.arange(40, 0, -1))  # 0.001 (-1 + 1.5) for this token and each later one


def test_a_part_of_the_answer_earns_nothing():
    assert [played([f"<answer>{PROBLEM.answer}{more}</answer>"])[0].reward for more in (".", " or so")] == [1.0, 0.0]


def test_without_an_answer_the_reward_is_0_after_four_actions():
    one, _ = played([SEARCH])
    assert (one.links["turns"], one.reward, one.links["invalid"]) == (4, 0.0, 0)


def test_an_action_without_tags_adds_the_hint_once():
    one, policy = played(["hm", f"<answer>{PROBLEM.answer}</answer>"])
    (context,) = one.contexts
    assert policy.text(context.tokens[~context.chosen]) == search_r1.environment.hint
    assert (one.links["turns"], one.links["invalid"], one.reward) == (2, 1, 1.0)


def test_numbers_of_the_paper():
    assert search_r1.credit.rule == GAE(gamma=1.0, lam=1.0)
    assert search_r1.credit.coefficient == 0.001
    assert search_r1.players["critic"].rates == Frozen(trunk=10.0, head=10.0)
    assert (search_r1.environment.limit, search_r1.environment.tools["search"].top) == (4, 3)
