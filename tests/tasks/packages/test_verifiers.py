"""Environments of verifiers: modules written here by its documentation, judged by the package and by us."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradus.api import train
from gradus.cli.episodes import played
from gradus.cli.play import Person
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.single_turn import SingleTurn
from gradus.testing import Effort, check_task
from gradus.training.plan import load_task
from gradus.types import Failed, Key, Problem, Request, UserError
from gradus.types.parts import Task

vf = pytest.importorskip("verifiers.v1")

SUMS = '''
import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: str


class SumsConfig(vf.TasksetConfig):
    count: int = 40


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=0.75)
    async def right(self, task, trace) -> float:
        if trace.last_reply == "raise":
            raise ValueError("fell over")
        return float(trace.last_reply.strip("= ") == task.answer)

    @vf.reward(weight=0.25)
    async def short(self, trace) -> dict:
        return {"brief": float(len(trace.last_reply) <= 4)}

    @vf.metric
    async def letters(self, trace) -> float:
        return float(len(trace.last_reply))


class Sums(vf.Taskset[SumTask, SumsConfig]):
    def load(self):
        for i in range(self.config.count):
            yield SumTask(SumData(prompt=f"{i}+{i + 1}", system_prompt="add", answer=str(2 * i + 1)), self.config.task)


__all__ = ["Sums"]
'''
GUESS = '''
import asyncio
import itertools

import verifiers.v1 as vf


class GuessData(vf.TaskData):
    number: int


class GuessTask(vf.Task[GuessData]):
    @vf.reward
    async def found(self, task, trace) -> float:
        return float(trace.last_reply == str(task.number))

    @vf.stop
    async def surrendered(self, trace: vf.Trace) -> bool:
        return trace.last_reply == "stop"


class Guesses(vf.Taskset[GuessTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for i in itertools.count():
            yield GuessTask(GuessData(prompt=f"guess number {i}", number=i * 7 % 10), self.config.task)


class GuessEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(max_turns=6)
    praise: float = 0.5


class GuessEnv(vf.Env[GuessEnvConfig]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as exchange:
            segment = await exchange.turn()
            while not segment.terminated and segment.last_reply != str(task.data.number):
                await asyncio.sleep(0.001)
                if segment.last_reply == "raise":
                    raise ValueError("fell over")
                said = segment.last_reply
                hint = "no number" if not said.isdecimal() or len(said) > 9 else "higher" if int(said) < task.data.number else "lower"
                segment = await exchange.turn(hint)

    async def finalize(self, task, episode):
        (trace,) = episode.traces
        trace.record_reward("praise", float(trace.num_turns == 1), self.config.praise)


__all__ = ["Guesses", "GuessEnv", "GuessEnvConfig"]
'''
SMALL = Effort(problems=6, texts=60)


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder of environments, importable here and in processes of the contract."""
    for name, text in (("vf_sums", SUMS), ("vf_guess", GUESS)):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    yield tmp_path
    for name in [n for n in sys.modules if n.startswith("vf_")]:
        del sys.modules[name]


def by_verifiers(task: Any, replies: Sequence[str]) -> Any:
    """A trace of these replies to a task, made and judged with the package alone."""
    given = [vf.SystemMessage(content=task.data.system_prompt)] if task.data.system_prompt else []
    messages = [*given, vf.UserMessage(content=task.data.prompt), *(vf.AssistantMessage(content=r) for r in replies)]
    nodes = [vf.MessageNode(parent=i - 1 if i else None, message=m, sampled=m.role == "assistant") for i, m in enumerate(messages)]
    data = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(task=data, agent=vf.AgentInfo(config=vf.AgentConfig()), nodes=nodes)
    asyncio.run(task.score(trace))
    return trace


def answered(task: Task, problem: Problem, lines: Sequence[str]) -> Any:
    """The trajectory of a person who types these lines."""
    rollout = SingleTurn() if task.environment is None else Episodes()
    return played(task, Person(iter(lines), print), Request(problem), rollout, sampling=task.sampling, seed=Key(0))


def test_rows_are_problems_and_a_tenth_is_held_out() -> None:
    task = load_task("verifiers:vf_sums", {"config": '{"count": 30}'})
    problems = [p for source in (task.source, task.held_out) for p in source.draw(range(source.size or 0), None, Key(0))]
    assert (task.source.size, task.held_out.size) == (27, 3)
    assert {p.question for p in problems} == {f"{i}+{i + 1}" for i in range(30)}
    assert all(p.messages[0] == {"role": "system", "content": "add"} for p in problems)
    assert {p.question: p.answer for p in problems}["7+8"] == "15"


def test_the_held_out_result_is_that_of_the_package() -> None:
    task = load_task("verifiers:vf_sums")
    rows = list(vf.load_taskset(vf.taskset_config_type("vf_sums").model_validate({"id": "vf_sums"})))
    problems = task.held_out.draw(range(task.held_out.size or 0), None, Key(0).fold("held out"))
    answers = [f"={p.answer}" if n % 2 else "I do not know" for n, p in enumerate(problems)]
    ours = [answered(task, p, [a]) for p, a in zip(problems, answers, strict=True)]
    theirs = [by_verifiers(rows[p.meta["number"]], [a]).reward for p, a in zip(problems, answers, strict=True)]
    assert [t.reward for t in ours] == theirs
    assert [t.right for t in ours] == [reward == 1 for reward in theirs]
    assert set(theirs) == {0.0, 1.0}
    assert task.verify is not None
    assert [task.verify(p, a) for p, a in zip(problems, answers, strict=True)] == theirs


def test_rewards_and_metrics_become_metrics_of_the_step() -> None:
    run = train("grpo", "verifiers:vf_sums", steps=2, setting__prompts=2, setting__group=2, setting__max_tokens=6, setting__eval_every=0, study=None)
    assert len(run.metrics) == 2
    for row in run.metrics:
        assert row["reward"] == pytest.approx(0.75 * row["verifiers/right"] + 0.25 * row["verifiers/brief"])
        assert row["verifiers/letters"] >= 0


def test_a_reward_that_raises_is_a_failure() -> None:
    task = load_task("verifiers:vf_sums")
    (problem,) = task.source.draw([0], None, Key(0))
    done = answered(task, problem, ["raise"])
    assert isinstance(done.reward, Failed)
    assert done.reward.reason == "the rewards raised ValueError: fell over"

    async def inside() -> Any:  # as a check calls it, beside a running loop
        return task.verify(problem, f"={problem.answer}") if task.verify else None

    assert asyncio.run(inside()) == 1.0


def test_many_turns_are_the_environments_own() -> None:
    task = load_task("verifiers:vf_guess")
    first = next(p for p in task.source.draw(range(9), None, Key(0)) if p.question == "guess number 1")  # the number is 7
    episode = task.environment.start(first, Key(0), None) if task.environment else None
    assert episode.first.observation == ""

    async def said(*replies: str) -> list[Any]:
        return [await episode.step(reply) for reply in replies]

    turns = asyncio.run(said("5", "9", "x", "7"))
    assert [t.observation for t in turns] == ["higher", "lower", "no number", ""]
    assert [t.terminated for t in turns] == [False, False, False, True]
    assert turns[-1].reward == 1.0


@pytest.mark.parametrize(
    ("replies", "turns", "reward"),
    [
        (["7"], 1, 1.5),  # the environment's own finalize praises it
        (["5", "7"], 2, 1.0),
        (["1", "stop"], 2, 0.0),  # the task's stop condition
        (["1", "2", "3", "4", "5", "6", "7"], 6, 0.0),  # the agent's limit of turns
    ],
)
def test_the_end_is_judged_by_task_and_environment(replies: list[str], turns: int, reward: float) -> None:
    task = load_task("verifiers:vf_guess")
    problem = next(p for p in task.source.draw(range(9), None, Key(0)) if p.question == "guess number 1")
    done = answered(task, problem, replies)
    assert (done.links["turns"], done.reward) == (turns, reward)
    row = task.source.rows.all[1]  # type: ignore[attr-defined]
    assert by_verifiers(row, replies[:turns]).reward == min(reward, 1.0)


def test_settings_reach_taskset_and_environment() -> None:
    task = load_task("verifiers:vf_guess", {"env": '{"praise": 2.0, "player": {"max_turns": 2}}', "tasks": "20"})
    assert (task.source.size or 0) + (task.held_out.size or 0) == 20
    problem = next(p for p in task.source.draw(range(9), None, Key(0)) if p.question == "guess number 1")
    assert answered(task, problem, ["7"]).reward == 3.0
    assert answered(task, problem, ["1", "2", "7"]).links["turns"] == 2


def test_an_error_of_the_environment_fails_the_episode() -> None:
    task = load_task("verifiers:vf_guess")
    (problem,) = task.source.draw([0], None, Key(0))
    done = answered(task, problem, ["raise"])
    assert isinstance(done.reward, Failed)
    assert "the environment raised ValueError: fell over (vf_guess.py, line" in done.reward.reason


def test_a_cut_answer_is_said_to_be_cut() -> None:
    task = load_task("verifiers:vf_sums")
    from gradus.tasks.packages.verifiers_traces import trace_of

    row = task.source.rows.all[0]  # type: ignore[attr-defined]
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "long"}]
    assert [trace_of(row, messages, cut=cut).is_truncated for cut in (True, False)] == [True, False]
    assert trace_of(row, messages).num_turns == 1


@pytest.mark.parametrize("name", ["vf_sums", "vf_guess"])
def test_the_contract_is_kept(name: str) -> None:
    def wins(problem: Problem) -> list[str]:
        return [f"={problem.answer}"] if name == "vf_sums" else [str(int(problem.question.split()[-1]) * 7 % 10)]

    report = check_task(load_task(f"verifiers:{name}"), right=wins, effort=SMALL, strict=True)
    assert {c.rule for c in report.checked if not c.skipped} >= ({"reference answers"} if name == "vf_sums" else {"reference actions"})


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["vf_sums", "vf_guess"])
def test_another_process_draws_the_same_problems(name: str) -> None:
    check_task(f"verifiers:{name}", effort=SMALL, only=["another process"], strict=True)


def test_two_steps_of_many_turns_train() -> None:
    run = train("grpo", "verifiers:vf_guess", steps=2, setting__prompts=2, setting__group=2, setting__max_tokens=4, setting__eval_every=0, study=None)
    assert len(run.metrics) == 2
    assert all(np.isfinite(row["reward"]) for row in run.metrics)


HEAD = "import verifiers.v1 as vf\n"
SET = "class S(vf.Taskset[{task}, vf.TasksetConfig]):\n    def load(self):\n        yield {task}(vf.TaskData({data}), self.config.task)\n__all__ = ['S']\n"


def made(body: str = "pass", data: str = "prompt='a'") -> str:
    return f"{HEAD}class T(vf.Task[vf.TaskData]):\n    {body}\n{SET.format(task='T', data=data)}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def load_environment(): pass\n", "load_environment is the interface of verifiers before 0.4"),
        ("import surely_missing_package\n", "imports the module surely_missing_package, which is not installed"),
        (made("NEEDS_CONTAINER = True"), "runs in a container"),
        (made("async def setup(self, trace, runtime): pass"), "prepares a machine"),
        (made("@vf.reward\n    async def r(self, runtime): return 1.0"), "judges by a machine"),
        (made("@vf.intercept\n    async def i(self, request: vf.Request): return request"), "changes requests or answers"),
        (made("@vf.stop\n    async def s(self, request: vf.Request): return False"), "changes requests or answers"),
        (made(data="system_prompt='b'"), "has no prompt, and exports no environment"),
        (made(data="prompt=[vf.UserMessage(content=[{'type': 'text', 'text': 'x'}])]"), "contains images or tool calls"),
        (made(data="image='ubuntu'").replace("image", "prompt='a', image"), "runs in a container"),
        (made().replace("yield", "raise KeyError('gone') #"), "cannot load its tasks: KeyError: 'gone'"),
        (made().replace("yield", "return [] #"), "has no tasks"),
        (made(), "has only one task"),
        (GUESS.replace("player: vf", "judge: vf.AgentConfig = vf.AgentConfig()\n    player: vf"), r"is for 2 agents \(judge, player\)"),
        (GUESS.replace("async def finalize", "async def start(self): pass\n    async def finalize"), "starts its own servers"),
        (GUESS.replace("segment = await exchange.turn()", "await asyncio.sleep(1)\n            segment = await exchange.turn()"), "before its first turn"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(text: str, sentence: str, modules: Path) -> None:
    (modules / "vf_other.py").write_text(text)

    def drawn() -> None:
        task = load_task("verifiers:vf_other")
        (problem,) = task.source.draw([0], None, Key(0))
        if task.environment is not None:
            answered(task, problem, ["7"])

    with pytest.raises(UserError, match=sentence):
        drawn()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"config": '{"cuont": 3}'}, "cannot be loaded: ValidationError.*cuont"),
        ({"config": "3"}, '--task.config "3" cannot be read; write key=value,key=value or a JSON object'),
        ({"env": "{"}, '--task.env "{" cannot be read'),
        ({"tasks": "1"}, "--task.tasks is 1"),
    ],
)
def test_settings_that_do_not_fit(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_task("verifiers:vf_sums", options)


def test_an_environment_that_is_not_installed() -> None:
    with pytest.raises(UserError, match='no environment "vf_none" of verifiers is installed; install its package'):
        load_task("verifiers:vf_none")
