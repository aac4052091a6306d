"""TAPO: the strict form, the measures of an answer, the length penalty, dropped groups, tokens without loss, and DAPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.papers.agents.tapo_tool import MEASURES, StrictBlocks, blocks, plain, tapo_tool
from gradus.papers.bases.dapo import dapo
from gradus.recipe.core import changes
from gradus.rewards.overlong import Overlong
from gradus.selection.filters import Mixed
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import check_same_update, scripted_world, toy_group
from gradus.testing.methods.batches import evaluated
from gradus.tools.calculator import Calculator
from gradus.types import Failed, Frozen, Group, Key, Problem, Request, Trajectory, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb

TASK = search_qa(1, people=40, calculator=True, instruction=False)
FAST = replace(tapo_tool.environment, tools=Frozen(search=tapo_tool.environment.tools["search"], calculate=Calculator()))
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
GOOD = "<think>a</think><search>q</search><response>r</response><answer>4</answer>"


def of(text: str, answer="4", source: str = "math") -> tuple[float, dict[str, float]]:
    score, components = StrictBlocks(source).of(Problem("p", "t", answer=answer), text)
    return score, dict(components)


def played(script: list[str], overlong: Overlong = Overlong(2048, share=0.5)):
    task = replace(TASK, environment=FAST)
    reward = StrictBlocks(overlong=overlong)
    world, policy = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(tapo_tool.rollout.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


def test_a_row_of_blocks_is_judged_by_its_answer() -> None:
    assert of(GOOD) == (1.0, {"verified": 1.0, "search": 1.0, "code": 0.0})
    assert of(f"\n{GOOD}\n".replace("><", ">\n<"))[0] == 1.0
    assert of(GOOD, "5")[0] == 0.0


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("</search>", "</search> so "),  # a stray word
        f"so {GOOD}",
        f"{GOOD} end",
        GOOD.removesuffix("<answer>4</answer>"),
        "<answer>4</answer><think>a</think>",
        "<note>a</note><answer>4</answer>",
        "<answer>4",
        "",
    ],
)
def test_any_other_text_scores_minus_1(text: str) -> None:
    assert blocks(text.strip()) is None
    assert of(text) == (-1.0, {"verified": 0.0, "search": 0.0, "code": 0.0})


@pytest.mark.parametrize(
    ("source", "said", "due", "score"),
    [
        ("nq", "abcd", "abce", 0.75),
        ("nq", "abcd", "wxyz", 0.0),
        ("nq", "abcd", "abxy", 0.0),  # a distance of exactly one half
        ("nq", "in Rome, Italy", "rome", 1.0),
        ("math", " 1,234 ", "1234", 1.0),
        ("math", "Twelve", "12", 1.0),
        ("math", "12.0", "12", 0.0),
        ("calculator", "12.0005", "12", 1.0),
        ("calculator", "12.002", "12", 0.0),
        ("calculator", "twelve or so", "12", 0.0),
        ("complex", "about 104", "100", 1.0),
        ("complex", "105", "100", 0.0),
        ("complex", "none", "100", 0.0),
    ],
)
def test_measures_by_hand(source: str, said: str, due: str, score: float) -> None:
    assert MEASURES[source](plain(said), plain(due)) == score
    assert of(f"<answer>{said}</answer>", due, source)[0] == score


def test_the_best_of_several_answers_and_the_bound_of_a_right_answer() -> None:
    assert of("<answer>abcd</answer>", ["wxyz", "abce"], "nq")[0] == 0.75
    almost = of("<answer>abcdefghijklmnopqrst</answer>", "abcdefghijklmnopqrsx", "nq")
    assert (almost[0], almost[1]["verified"]) == (pytest.approx(0.95), 1.0)  # above 0.9: right
    assert of("<answer>abcdefghij</answer>", "abcdefghix", "nq") == (0.9, {"verified": 0.0, "search": 0.0, "code": 0.0})
    column = Problem("p", "t", answer="abce", meta=Frozen(data_source="nq"))
    assert StrictBlocks().of(column, "<answer>abcd</answer>")[0] == 0.75


@pytest.mark.parametrize(("length", "penalty"), [(1024, 0.0), (1536, -0.5), (2048, -1.0), (3072, -1.0)])
def test_the_length_penalty_is_also_added_to_minus_1(length: int, penalty: float) -> None:
    group = toy_group(0.0, lengths=[length])
    world, _ = scripted_world(TASK, lambda ask: "")
    ((one,),) = asyncio.run(StrictBlocks().score([group], {}, world))
    assert (one.reward, one.components["overlong"]) == (-1 + penalty, penalty)


def test_an_episode_with_both_tools() -> None:
    search = f"<search>{PROBLEM.meta['demonstration'][0][1].removeprefix('search: ')}</search>"
    one, policy = played([f"<think>a</think>{search}", "<code>40 + 2</code>", f"<answer>{PROBLEM.answer}</answer>"])
    (context,) = one.contexts
    inserted = policy.text(context.tokens[~context.chosen])
    assert inserted.startswith("<response>")
    assert inserted.endswith("<response>42</response>")
    assert (one.reward, one.right, dict(one.components)) == (1.0, True, {"verified": 1.0, "search": 1.0, "code": 1.0, "overlong": 0.0})
    one, policy = played(["<think>a</think>", f"<answer>{PROBLEM.answer}</answer>"])  # the inserted hint is a stray text
    assert policy.text(one.contexts[0].tokens[~one.contexts[0].chosen]) == FAST.hint
    assert one.reward == -1.0
    one, _ = played([f"so {search}", f"<answer>{PROBLEM.answer}</answer>"])
    assert (one.reward, one.right) == (-1.0, False)


def test_the_penalty_does_not_change_which_groups_are_mixed() -> None:
    said = f"<answer>{PROBLEM.answer}</answer>"
    one, _ = played([said], Overlong(len(said), len(said)))
    assert (one.reward, one.right) == (0.0, True)
    right = [one.but(id=f"r{i}", reward=1.0 - i) for i in range(2)]
    wrong = one.but(id="w", reward=-1.0, components=Frozen(verified=0.0))
    groups = [Group("right", tuple(right)), Group("mixed", (one, wrong))]
    assert [[g.key for g in side] for side in tapo_tool.selection.keep(groups, Key())] == [["mixed"], ["right"]]


def test_a_failed_episode_stays_failed() -> None:
    world, _ = scripted_world(TASK, lambda ask: "")
    lost = toy_group(Failed("late"))
    ((one,),) = asyncio.run(StrictBlocks().score([lost], {}, world))
    assert one.reward == Failed("late")


def test_tokens_inside_a_response_have_no_loss() -> None:
    one, _ = played(["<code>40 + 2</code>", f"<answer>{PROBLEM.answer}</answer>"])
    (context,) = one.contexts
    count = int(context.chosen.sum())
    assert count == len(context.logprobs) < len(context.tokens)
    losses = []
    for other in (1, 2):
        tokens = np.where(context.chosen, context.tokens, context.tokens + other).astype(np.int32)
        made: Trajectory = one.but(contexts=(replace(context, tokens=tokens),), advantages=np.ones(count))
        found = evaluated(tapo_tool.objective["policy"], {LogProb(): torch.linspace(-2.0, -1.0, count)}, make_batch([Group("g", (made,))]))
        losses.append(found.gradient[LogProb()].tolist())
        assert len(losses[-1]) == count
    assert losses[0] == losses[1]


def test_the_rest_is_dapo() -> None:
    back = {"setting__prompts": dapo.setting.prompts, "setting__group": dapo.setting.group, "update__count": dapo.update.count}
    check_same_update(tapo_tool.but(environment=None, rollout=dapo.rollout, reward=dapo.reward, **back), dapo)
    assert set(changes(dapo, tapo_tool)) == {"environment", "rollout.rollout", "reward", "setting.prompts", "setting.group", "update.count"}
    assert (tapo_tool.setting.prompts, tapo_tool.setting.group, tapo_tool.update.count, tapo_tool.selection) == (64, 4, 4, Mixed())
    assert tapo_tool.reward.overlong == Overlong(2048, share=0.5)
    assert (tapo_tool.environment.tools["search"].top, tapo_tool.rollout.rounds) == (1, 10)
    with pytest.raises(UserError, match="source"):
        StrictBlocks("maths")
