"""R1-Code-Interpreter: the sixth call, masked outputs, macro accuracy by hand, the choice of code or words, the stages, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

import gradus
from gradus.papers.agents.r1_code_interpreter import INTERPRETER, MacroAccuracy, SignedAnswer, macro, r1_code_interpreter
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.code.python_tool import EASY, QUESTIONS, python_tool
from gradus.testing.methods import check_same_update, scripted_world
from gradus.testing.methods.batches import evaluated
from gradus.tools.calculator import Calculator
from gradus.tools.forms import Answer, Call, Malformed
from gradus.tools.python import Python
from gradus.types import Frozen, Group, Key, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.moments import Steps
from gradus.types.signals import LogProb

FAST = replace(INTERPRETER, tools=Frozen(python=Calculator(name="python")))
PROBLEMS = python_tool(1, instruction=False, words=0.5).source.draw(range(40), 1, Key(0))
CODE, WORDS = (next(p for p in PROBLEMS if p.meta["needs"] == needs) for needs in ("code", "words"))
BLOCK = "```python\n6 * 7\n```\n```output"


def played(script: list[str], problem=CODE):
    task = replace(python_tool(1, instruction=False), environment=FAST)
    world, policy = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=r1_code_interpreter.reward)
    (group,) = asyncio.run(r1_code_interpreter.rollout.run([Request(problem, 1)], world))
    return group.trajectories[0], policy


def test_the_sixth_call_is_refused_and_the_answer_follows() -> None:
    one, policy = played([BLOCK] * 6 + [f"so <<<{CODE.answer}>>>"])
    (context,) = one.contexts
    inserted = policy.text(context.tokens[~context.chosen])
    assert inserted == "\n42\n```\n" * 5
    assert (len(one.links["calls"]), one.links["turns"], one.reward) == (5, 7, 1.0)


@pytest.mark.parametrize(("said", "reward"), [("<<<{}>>>", 1.0), ("it is {}", 0.0), ("<<<{}>>> or <<<no>>>", 0.0), ("<<<no>>> <<<{}>>>", 1.0)])
def test_only_the_signed_answer_counts(said: str, reward: float) -> None:
    assert played([said.format(CODE.answer)])[0].reward == reward


def test_a_form_with_signs_around_the_answer() -> None:
    form, tools = SignedAnswer(), (Python(),)
    for action, said in (("so <<<3>>> no <<< 4 >>>.", Answer("4")), ("just words", None), ("<<<>>>", None), ("<<<4", None), (" ", None)):
        assert form.read(action, tools) == said
    assert form.read(form.answer("4"), tools) == Answer("4")
    assert form.read("<<<4>>>\n```python\n1\n```\n```output", tools) == (Call("python", {"code": "1"}),)
    (malformed,) = form.read("<<<4>>> ```output", tools)  # type: ignore[misc]
    assert isinstance(malformed, Malformed)
    assert form.describe(tools) == "Write ```python code ```, then ```output. Answer: <<<...>>>"


def test_outputs_have_no_loss_and_would_change_it() -> None:
    one, _ = played([BLOCK, f"<<<{CODE.answer}>>>"])
    (context,) = one.contexts
    count, whole = int(context.chosen.sum()), len(context.tokens)
    assert count == len(context.logprobs) < whole
    open_ = replace(context, chosen=np.ones(whole, bool), logprobs=np.zeros(whole, np.float32), versions=np.zeros(whole, np.int32), streams=Frozen(), rewards=())
    losses = []
    for made, number in ((context, count), (open_, whole)):
        said = torch.linspace(-2.0, -1.0, number)
        row = one.but(contexts=(made,), advantages=np.ones(number))
        losses.append(evaluated(r1_code_interpreter.objective["policy"], {LogProb(): said}, make_batch([Group("g", (row,))])))
    assert [len(found.gradient[LogProb()]) for found in losses] == [count, whole]
    assert float(losses[0].loss) != float(losses[1].loss)


def test_macro_accuracy_by_hand() -> None:
    right = {"few": [1.0] * 10, "many": [0.0] * 90}
    assert macro({kind: sum(row) / len(row) for kind, row in right.items()}) == 0.5
    every = [hit for row in right.values() for hit in row]
    assert sum(every) / len(every) == 0.1
    assert macro({}) is None


@pytest.mark.nightly
def test_the_study_measures_it(tmp_path) -> None:
    quick = {"schedule": ConstantSchedule(), "study__problems": 8, "study__greedy": False, "setting__prompts": 1, "setting__group": 2, "environment": FAST}
    run = gradus.train(r1_code_interpreter, task="python_tool", task_options={"words": "0.5", "level": "1"}, steps=1, run=tmp_path / "run", **quick)
    (row, *_) = [row for row in run.metrics if "held_out/macro" in row]
    kinds = [value for name, value in row.items() if name.startswith("held_out/category/")]
    assert row["held_out/macro"] == pytest.approx(np.mean(kinds))


@pytest.mark.parametrize(
    ("problem", "script", "code", "choice"),
    [(CODE, [BLOCK, "<<<1>>>"], 1.0, 1.0), (CODE, ["<<<1>>>"], 0.0, 0.0), (WORDS, ["<<<1>>>"], 0.0, 1.0), (WORDS, [BLOCK, "<<<1>>>"], 1.0, 0.0)],
)
def test_the_choice_of_code_or_words(problem, script, code, choice) -> None:
    one, _ = played(script, problem)
    assert (one.components["code"], one.components["choice"]) == (code, choice)
    plain = replace(problem, meta=Frozen({k: v for k, v in problem.meta.items() if k != "needs"}))
    assert "choice" not in played(script, plain)[0].components


def test_both_kinds_of_traces_are_learned_in_this_form() -> None:
    assert INTERPRETER.demonstration(WORDS)[0][1] == f"<<<{WORDS.answer}>>>"
    code = INTERPRETER.demonstration(CODE)
    assert (code[0][1].endswith("```output"), code[1][1]) == (True, f"<<<{CODE.answer}>>>")
    kinds = {p.meta["category"]: p.meta["needs"] for p in PROBLEMS}
    assert {k for k, needs in kinds.items() if needs == "words"} <= set(EASY)
    assert {k for k, needs in kinds.items() if needs == "code"} <= set(QUESTIONS)


def test_the_rest_is_grpo() -> None:
    plain = r1_code_interpreter.but(
        environment=None, rollout=Auto(), reward=Verified(), schedule=ConstantSchedule(), study=grpo.study, setting__group=grpo.setting.group
    )
    check_same_update(plain, grpo.but(objective__kl__coefficient=0.001))
    stages = r1_code_interpreter.schedule.stages
    assert (list(stages), stages["sft"].until, stages["rl"].recipe) == (["sft", "rl"], Steps(150), None)
    assert stages["sft"].changes["environment"] == r1_code_interpreter.environment == INTERPRETER
    assert (INTERPRETER.calls, r1_code_interpreter.setting.group, r1_code_interpreter.objective["kl"].coefficient) == (5, 5, 0.001)
    assert set(changes(grpo, r1_code_interpreter)) >= {"environment", "rollout", "reward", "objective.kl.coefficient", "setting.group", "schedule"}
    with pytest.raises(UserError, match=r"MacroAccuracy\.problems"):
        MacroAccuracy(problems=0)
