"""A conversation over a pipe, with a scripted model and with the built-in one."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradus.cli import chat
from gradus.cli.chat import HELP, Streamed, Talk, answer, load, problem_of
from gradus.cli.main import main
from gradus.policies.engine import Sampled
from gradus.policies.jobs import sampled_context
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.pictures.shapes import shapes
from gradus.types import Context, Ended, Key, Sampling, UserError, prompt_context
from gradus.types.png import png

DRAWN = Sampling(temperature=1.0, max_tokens=20)


class Echo:
    """Reads characters as tokens, and answers what stands in `script` whatever it is asked; notes what it was asked for."""

    note = None
    context_length = 100
    reads = frozenset({"text"})

    def __init__(self, script: str = "0123456789abcdefghijklmnop") -> None:
        self.script, self.asked, self.read = script, [], []

    def opening(self, prompt: Any) -> Context:
        self.read.append(prompt)
        return prompt_context([1, 2])

    def said(self, context: Context, since: int) -> str:
        return self.text(context.sequence[since:])

    def act(self, asked: Any) -> list[Context]:
        (one,) = asked
        start, most = one.at - 2, one.sampling.max_tokens
        self.asked.append((start, most))
        text = self.script[start : start + most]
        ended = Ended.STOP if start + most >= len(self.script) else Ended.LENGTH
        tokens = np.array([ord(c) for c in text], np.int32)
        return [sampled_context(one, Sampled(tokens, np.zeros(len(text), np.float32), ended))]

    def text(self, tokens: np.ndarray) -> str:
        return "".join(chr(t) for t in tokens)


def talked(model: Any, *lines: str, talk: Talk | None = None) -> tuple[Talk, list[str]]:
    out = io.StringIO()
    ended = chat.chat(model, talk or Talk(DRAWN), [f"{line}\n" for line in lines], out)
    return ended, out.getvalue().splitlines()


def test_an_answer_comes_whole_or_in_growing_pieces() -> None:
    whole, pieces = Echo(), Echo()
    assert list(answer(whole, (), DRAWN, Key(0))) == ["0123456789abcdefghij"]
    assert whole.asked == [(0, 20)]
    # 8 tokens, then 16 of which 12 are left
    assert list(answer(pieces, (), DRAWN, Key(0), streamed=True)) == ["01234567", "0123456789abcdefghij"]
    assert pieces.asked == [(0, 8), (8, 12)]
    with_stops = Echo()
    assert len(list(answer(with_stops, (), Sampling(max_tokens=20, stops=("x",)), Key(0), streamed=True))) == 1


def test_an_answer_ends_where_the_model_ends_it() -> None:
    assert list(answer(Echo("short"), (), DRAWN, Key(0), streamed=True)) == ["short"]


def test_half_a_letter_waits_for_its_other_half() -> None:
    assert list(answer(Echo("0123456\ufffd89"), (), DRAWN, Key(0), streamed=True)) == ["0123456", "0123456\ufffd89"]


def test_pieces_draw_what_the_whole_draws() -> None:
    model = load(None)
    asked = (model, ({"role": "user", "content": "384+567"},), Sampling(temperature=1.0, max_tokens=40), Key(7))
    assert list(answer(*asked, streamed=True))[-1] == list(answer(*asked))[-1]


def test_what_was_said_is_read_again() -> None:
    model = Echo("yes")
    ended, out = talked(model, "one", "", "two", "/reset", "three", talk=Talk(DRAWN, system="be brief"))
    assert out == ["yes", "yes", "yes"]
    said = [[(m["role"], m["content"]) for m in prompt] for prompt in model.read]
    system = ("system", "be brief")
    assert said == [
        [system, ("user", "one")],
        [system, ("user", "one"), ("assistant", "yes"), ("user", "two")],
        [system, ("user", "three")],
    ]
    assert len(ended.messages) == 2


def test_commands() -> None:
    ended, out = talked(Echo(), "/system a b", "/temperature 0.5", "/help", "/quit", "never asked")
    assert (ended.system, ended.sampling.temperature, ended.messages) == ("a b", 0.5, ())
    assert len(out) == len(HELP)
    ended, out = talked(Echo(), "/system", "/temperature hot", "/temperature -1", "/rest", "/problem 1", talk=Talk(DRAWN, system="x"))
    assert ended.system is None
    assert ended.sampling == DRAWN
    assert out[0] == '/temperature needs a number, but "hot" was given'
    assert "`temperature` is -1" in out[1]
    assert 'unknown command "/rest" (did you mean /reset' in out[2]
    assert out[3].startswith("there are no problems, because no task was named")


def test_a_picture_stands_before_the_next_message(tmp_path: Path) -> None:
    (task, model), path = (shapes(1), load(None, task="shapes")), tmp_path / "seen.png"
    problem = problem_of(task, 0)
    path.write_bytes(png(problem.media[0].array))
    talk = Talk(Sampling(temperature=0, max_tokens=8))
    ended, out = talked(model, f"/image {path}", problem.question, talk=talk)
    assert ended.messages[0]["content"] == tuple(problem.messages[0]["content"])
    assert ended.pictures == ()
    assert out == [next(answer(model, problem.messages, talk.sampling, Key(0)))]
    other = talked(model, f"/image {path}", "/reset", problem.question, talk=talk)[0]
    assert other.messages[0]["content"] == problem.question  # forgotten with the conversation
    assert talked(Echo(), f"/image {path}")[1] == [
        "/image: this model reads only text; start with a model that reads pictures, for example: gradus chat --task shapes"
    ]


def test_a_problem_with_a_picture_names_its_file() -> None:
    task, model = shapes(1), load(None, task="shapes")
    problem = problem_of(task, 2)
    ended, out = talked(model, "/problem 2", talk=Talk(Sampling(temperature=0, max_tokens=8), task=task))
    path = out[0].removeprefix(f"problem 2: [image 48x48 {problem.media[0].digest[:8]}: ").removesuffix(f"]{problem.question}")
    assert Path(path).read_bytes() == png(problem.media[0].array)
    assert ended.messages[0] == problem.messages[0]


def test_a_problem_is_put_and_judged() -> None:
    task = arithmetic()
    right = str(problem_of(task, 3).answer)
    ended, out = talked(Echo(f"={right}"), "/problem 3", "why?", talk=Talk(DRAWN, task=task))
    assert out == [f"problem 3: {problem_of(task, 3).question}", f"={right}", f"verdict: right (1), expected {right}", f"={right}"]
    assert [m["role"] for m in ended.messages] == ["user", "assistant", "user", "assistant"]
    assert talked(Echo("=-7"), "/problem 3", talk=Talk(DRAWN, task=task))[1][2] == f"verdict: wrong (0), expected {right}"


def test_problems_are_those_of_evaluation() -> None:
    from gradus.study.held_out import held_out_requests

    task = arithmetic()
    assert problem_of(task, 3).question == held_out_requests(task.held_out, 5, 1, task.level)[3].problem.question
    with pytest.raises(UserError, match="problem -1 does not exist"):
        problem_of(task, -1)


def test_a_text_prompt_is_asked_raw_or_as_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").write_text("".join(f'{{"prompt": "say {n}", "answer": {n}}}\n' for n in range(9)))
    asked = []
    for words in ([], ["--task.prompt", "chat"]):
        model = Echo("6")
        monkeypatch.setattr(chat, "load", lambda *a, model=model, **k: model)
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert main(["chat", "--task", "d.jsonl", "--problem", "0", *words]) == 0
        asked += model.read
    text = capsys.readouterr().out.split("problem 0: ")[1].splitlines()[0]
    assert asked == [text, ({"role": "user", "content": text},)]


def failing(problem: Any, completion: str) -> float:
    raise ValueError("no number")


def test_a_problem_without_a_verdict() -> None:
    task = arithmetic()
    problem = f"problem 3: {problem_of(task, 3).question}"
    told = talked(Echo("=1"), "/problem 3", talk=Talk(DRAWN, task=replace(task, verify=failing)))[1]
    assert told[2].startswith("verdict: not judged: the verifier raised ValueError: no number")
    assert talked(Echo("=1"), "/problem 3", talk=Talk(DRAWN, task=replace(task, verify=None)))[1] == [problem, "=1"]


class Interrupted(Echo):
    """Ctrl-C comes when its second piece is asked for."""

    def act(self, asked: Any) -> list[Context]:
        if self.asked:
            raise KeyboardInterrupt
        return super().act(asked)


def test_ctrl_c_cuts_an_answer_short() -> None:
    out = io.StringIO()
    ended = chat.chat(Interrupted(), Talk(DRAWN), ["hello\n"], out, streamed=True)
    assert out.getvalue() == "01234567 (cut)\n"
    assert ended.messages[-1] == {"role": "assistant", "content": "01234567"}
    out = io.StringIO()
    ended = chat.chat(Interrupted(), Talk(DRAWN, task=arithmetic()), ["/problem 3\n", "/quit\n"], out, streamed=True)
    assert out.getvalue().endswith("\n01234567 (cut)\n")
    assert ended.messages == ()


class Walker(Echo):
    """Answers the whole script in every turn."""

    def act(self, asked: Any) -> list[Context]:
        tokens = np.array([ord(c) for c in self.script], np.int32)
        return [sampled_context(one, Sampled(tokens, np.zeros(len(tokens), np.float32), Ended.STOP)) for one in asked]

    def follow(self, observation: Any, after: Context) -> Context:
        return prompt_context([3])


def test_an_episode_is_played_and_judged() -> None:
    task = frozen_lake()
    problem = problem_of(task, 3)
    model = Walker("jump")
    ended, out = talked(model, "/problem 3", talk=Talk(DRAWN, task=task, messages=({"role": "user", "content": "forgotten"},)))
    assert out[:5] == [*f"problem 3: {problem.question}".splitlines(), *problem.meta["map"]]
    assert out[5:7] == ["> jump", "not a move"]
    assert out[-2] == "the episode was cut: 20 turns, return 0"
    assert out[-1] == f"verdict: wrong (0), expected {problem.answer}"
    assert ended.messages == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_an_episode_is_that_of_an_evaluation(streamed: bool) -> None:
    """The tokens are equal, and so are the rewards: also if the actions are shown as they grow."""
    import asyncio

    from gradus.api import _of_model
    from gradus.cli.episodes import played
    from gradus.rewards.verified import Verified
    from gradus.rollouts.auto import Auto
    from gradus.study.held_out import held_out_requests

    task, model = frozen_lake(), load(None)
    run = _of_model(None, task, [], "cpu")
    run.seed = 5
    requests = held_out_requests(task.held_out, 3, 2, task.level)
    groups = asyncio.run(Auto().run(requests, run.world(run.recipe, "evaluate", Verified())))
    out = io.StringIO()
    for group, request in zip(groups, requests, strict=True):
        policy = Streamed(model, out, "> ") if streamed else model
        done = played(task, policy, replace(request, count=1), Auto(), sampling=task.sampling, seed=Key(5))
        expected = group.trajectories[0]
        assert done.contexts[-1].sequence.tolist() == expected.contexts[-1].sequence.tolist()
        assert done.contexts[-1].logprobs == pytest.approx(expected.contexts[-1].logprobs, abs=1e-4)
        assert (done.completion, done.reward, done.ended) == (expected.completion, expected.reward, expected.ended)
    assert out.getvalue().count("> ") == (sum(g.trajectories[0].links["turns"] for g in groups) if streamed else 0)


def test_a_run_plays_with_its_own_rollout(tmp_path: Path) -> None:
    from gradus import train
    from gradus.cli.episodes import rollout_of
    from gradus.rollouts.episodes import Episodes

    short = {"setting__prompts": 1, "setting__group": 2, "setting__eval_every": 0, "study": None}
    train("grpo", "frozen_lake", steps=0, run=tmp_path / "run", rollout=Episodes(max_turns=2), **short)
    assert rollout_of(str(tmp_path / "run")) == Episodes(max_turns=2)


def test_an_answer_cannot_steer_the_terminal() -> None:
    assert talked(Echo("a\x1b[2Jb"), "hello")[1] == ["a?[2Jb"]


def test_a_prompt_that_is_too_long_ends_nothing() -> None:
    model = load(None)
    ended, out = talked(model, "1" * 5000, "1+1")
    assert "leaves no room for an answer in the model's context" in out[0]
    assert len(out) == 2
    assert len(ended.messages) == 2  # the long one was not said


def test_the_command_over_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("12+30\n/quit\n"))
    assert main(["chat", "--task", "arithmetic", "--problem", "0", "--temperature", "0"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"problem 0: {problem_of(arithmetic(), 0).question}"
    assert out[2].startswith("verdict: ")
    assert len(out) == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gone"], "gone"),
        (["--problem", "1"], "name the task with --task"),
        (["--task.prompt", "chat"], "--task.prompt is an option of a task; name the task with --task"),
        (["--task", "arithmetic", "--max_token", "4"], "--max_token is not an option of gradus chat (did you mean --max-tokens?)"),
        (["--task", "arithmetics"], 'unknown task "arithmetics"'),
        (["--task", "flow_2d"], "task flow_2d is for a generator, not for a language model"),
        (["--precision", "half"], 'unknown precision "half"'),
        (["--device", "nowhere"], '--device is "nowhere"'),
        (["--temperature", "-1"], "`temperature` is -1"),
    ],
)
def test_mistakes_are_told(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["chat", *words]) == 2
    assert sentence in capsys.readouterr().err
