"""ARTIST: the three rewards by hand, what is inserted and has no loss, a repaired program, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.agents.artist import OrderedParts, artist, in_order
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.tasks.code.python_tool import python_tool
from gradus.testing.methods import check_same_update, scripted_world
from gradus.tools.calculator import Calculator
from gradus.tools.tool import FunctionTool
from gradus.types import Frozen, Key, Request, UserError

ORDER = ("think", "python", "output", "answer")
(PROBLEM,) = python_tool(1, instruction=False).source.draw([0], 1, Key(0))
RIGHT, WRONG = f"<answer>{PROBLEM.answer}</answer>", "<answer>no</answer>"
FAST = replace(artist.environment, tools=Frozen(python=Calculator(name="python")))  # as fast, and without a sandbox


def played(script: list[str], environment=FAST):
    task = replace(python_tool(1, instruction=False), environment=environment)
    world, policy = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=artist.reward)
    (group,) = asyncio.run(artist.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


CALLS = ["<think>a</think><python>1 + 1</python>", "<python>1 / 0</python>", "<python>2 * 3</python>", "<python>7</python>"]


@pytest.mark.parametrize(("last", "value"), [(RIGHT, 3.75), (WRONG, 1.75)])
def test_the_reward_by_hand(last: str, value: float) -> None:
    one, _ = played([*CALLS, last])
    assert one.reward == pytest.approx(value)
    assert (one.components["form"], one.components["ran"], one.right) == (1.0, 0.75, value > 3)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("<think>a</think><python>1</python><output>1</output><answer>1</answer>", 1.0),
        ("<python>1</python><output>1</output><answer>1</answer>", 0.75),
        ("<think>a</think><answer>1</answer>", 0.5),
        ("<answer>1</answer><think>a</think>", 0.25),  # the answer stands before the thought
        ("<think>a<answer>1</answer></think>", 0.25),  # the answer stands inside the thought
        ("<think>a<answer>1</answer>", 0.25),  # the thought is not closed
        ("", 0.0),
    ],
)
def test_the_form_by_hand(text: str, share: float) -> None:
    assert in_order(text, ORDER) == share


def test_an_answer_without_a_call() -> None:
    one, _ = played([f"<think>a</think>{RIGHT}"])
    assert (one.reward, one.components["ran"]) == (2.5, 0.0)


def test_the_error_is_shown_and_inserted_text_has_no_loss() -> None:
    lengths = []
    for told in ("1", "12345"):

        def code(code: str) -> str:
            """Runs.

            Args:
                code: the program
            """
            if code == "x":
                raise ValueError("bad")
            return told  # noqa: B023

        tool = FunctionTool(code)
        environment = replace(artist.environment, tools=Frozen(code=tool), form=replace(artist.environment.form, names=(("python", "code"),)))
        one, policy = played(["<python>x</python>", "<python>1</python>", RIGHT], environment)
        (context,) = one.contexts
        assert policy.text(context.tokens[~context.chosen]) == f"<output>error: ValueError: bad</output><output>{told}</output>"
        lengths.append((len(context.logprobs), int(context.chosen.sum()), one.actions))
    assert lengths[0] == lengths[1]  # the output changes no number of trained tokens
    assert lengths[0][0] == lengths[0][1] == len("<python>x</python><python>1</python>" + RIGHT)


def test_the_fifth_piece_is_the_last() -> None:
    one, _ = played(["<python>1</python>"])
    assert (len(one.links["calls"]), one.reward) == (5, 0.5 + 1.0)


def test_the_rest_is_grpo() -> None:
    same = artist.but(environment=None, rollout=Auto(), reward=Verified(), setting__group=grpo.setting.group)
    check_same_update(same, grpo)
    assert set(changes(grpo, artist)) == {"environment", "rollout", "reward", "setting.group"}
    assert (artist.setting.group, artist.environment.limit, artist.reward.weights["environment"]) == (6, 5, 2.0)
    with pytest.raises(UserError, match=r"OrderedParts\.order"):
        OrderedParts(())
