"""A person's answers and actions over a pipe."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradus.cli.episodes import writer
from gradus.cli.main import main
from gradus.cli.play import HELP, Score, hints_of, play, problems_of, solution_of
from gradus.tasks.data.pictures import decoded
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.pictures.shapes import shapes
from gradus.tasks.puzzles.countdown import countdown
from gradus.tasks.text.research import research
from gradus.tasks.text.search_qa import search_qa
from gradus.types import Frozen, Key, Media, Problem, UserError
from gradus.types.parts import Task, Turn


def typed(task: Task, *lines: str, first: int = 0, most: int | None = None, held_out: bool = False) -> tuple[Score, list[str]]:
    out = io.StringIO()
    numbered = problems_of(task, held_out=held_out, first=first, most=most, seed=0)
    score = play(task, numbered, (f"{line}\n" for line in lines), writer(out))
    return score, out.getvalue().splitlines()


def first_problems(task: Task, count: int) -> list[Problem]:
    return task.source.draw(range(count), task.level, Key(0).fold("problems"))


def test_answers_are_judged() -> None:
    task = arithmetic()
    one, two = first_problems(task, 2)
    score, out = typed(task, f"={one.answer}", "", "=-1", most=2)
    assert out == [
        f"problem 0: {one.question}",
        f"> ={one.answer}",
        f"verdict: right (1), expected {one.answer}",
        "score: 1 of 1 right, mean reward 1",
        f"problem 1: {two.question}",
        "> =-1",
        f"verdict: wrong (0), expected {two.answer}",
        "score: 1 of 2 right, mean reward 0.5",
    ]
    assert (score.right, score.rewards) == (1, [1.0, 0.0])


def test_a_person_sees_the_picture_of_a_problem() -> None:
    """Its file is named before the question, and is there while the answer is typed."""
    task = shapes()
    (problem,) = first_problems(task, 1)
    seen: list[Media] = []
    out = io.StringIO()

    def lines() -> Iterator[str]:
        path = out.getvalue().partition(": /")[2].partition("]")[0]
        seen.append(decoded(Path(f"/{path}").read_bytes()))
        yield f"{problem.answer}\n"

    score = play(task, problems_of(task, held_out=False, first=0, most=1, seed=0), lines(), writer(out))
    assert seen == list(problem.media)
    assert out.getvalue().splitlines()[0].endswith(f".png]{problem.question}")
    assert (score.right, score.rewards) == (1, [1.0])


def test_an_episode_is_played_to_its_end() -> None:
    task = frozen_lake()
    (problem,) = first_problems(task, 1)
    moves = [action for _, action in problem.meta["demonstration"]]
    score, out = typed(task, "jump", *moves, most=1)
    assert out[: 1 + len(problem.meta["map"])] == [f"problem 0: {problem.question}", *problem.meta["map"]]
    assert out[5:7] == ["> jump", "not a move"]
    assert "(not a legal action)" in out
    assert out[-5:] == [
        "goal",
        "(reward 1)",
        f"the episode is over: {len(moves) + 1} turns, return 1",
        f"verdict: right (1), expected {problem.answer}",
        "score: 1 of 1 right, mean reward 1",
    ]
    assert score.right == 1


def test_the_limit_of_turns_is_the_environments_own() -> None:
    task = frozen_lake()
    assert typed(task, *["jump"] * 30, most=1)[1][-3] == "the episode was cut: 30 turns, return 0"


def test_commands() -> None:
    task = countdown()
    hints = hints_of(first_problems(task, 1)[0])
    many = ["/hint"] * (len(hints) + 1)
    score, out = typed(task, "/help", *many, "/solution", "/skip", "/hits", " /1", "/quit", "=1")
    assert out[1 : 1 + len(HELP)] == [f"  {form:<10} {what}" for form, what in HELP.items()]
    told = out[1 + len(HELP) :]
    assert told[: len(hints)] == [f"hint: {hint}" for hint in hints]
    assert told[len(hints)] == "there are no further hints"
    assert told[len(hints) + 1] == solution_of(first_problems(task, 1)[0])
    assert told[len(hints) + 2] == "score: 0 of 1 right; 1 given up"
    assert told[len(hints) + 4] == "score: 0 of 1 right; 1 given up; 1 skipped"
    assert told[len(hints) + 6].startswith('unknown command "/hits" (did you mean /hint')
    assert told[len(hints) + 7] == ">  /1"  # a space before a slash makes it an answer
    assert (score.right, score.given_up, score.skipped, score.rewards) == (0, 1, 1, [0.0])


def test_hints_begin_anew_with_every_problem() -> None:
    task = countdown()
    hints = [hints_of(p)[0] for p in first_problems(task, 2)]
    assert [line for line in typed(task, "/hint", "/skip", "/hint")[1] if line.startswith("hint")] == [f"hint: {hint}" for hint in hints]


def test_data_of_any_form() -> None:
    def problem(**meta: Any) -> Problem:
        return Problem("p", "t", text="?", answer=meta.pop("answer", None), meta=Frozen(meta))

    assert hints_of(problem()) == []
    assert hints_of(problem(hints="one")) == hints_of(problem(hints=["one"])) == hints_of(problem(hints={"a": "one"})) == ["one"]
    assert hints_of(problem(hints={"a": ["one ", "two"], "b": ["three"]})) == ["one", "two", "three"]
    assert solution_of(problem()) is None
    assert solution_of(problem(answer=7)) == "7"
    assert solution_of(problem(answer=7, solution="3+4=7")) == "3+4=7"
    assert solution_of(problem(solution="x", demonstration=[("seen", "up"), ("seen", "left")])) == "> up\n> left"


def test_a_line_is_continued_after_a_backslash() -> None:
    seen: list[str] = []

    def verify(problem: Problem, completion: str) -> float:
        seen.append(completion)
        return 0.25

    out = typed(replace(arithmetic(), verify=verify), "def f():\\", "    return 1\\", "", "é\U0001f600\\", most=2)[1]
    assert seen == ["def f():\n    return 1\n", "é\U0001f600\n"]
    assert out[-2].startswith("verdict: partly right (0.25)")


def test_training_problems_are_those_of_a_run_and_held_out_ones_those_of_an_evaluation() -> None:
    from gradus.cli.chat import problem_of
    from gradus.curricula.shuffled_epochs import ShuffledEpochs

    task = arithmetic()
    world: Any = SimpleNamespace(seed=Key(0), task=task, group=2)
    requests, _ = ShuffledEpochs().choose(task.source, 3, world, {"drawn": 0})
    trained = [p.question for _, p in itertools.islice(problems_of(task, held_out=False, first=0, most=None, seed=0), 3)]
    assert trained == [r.problem.question for r in requests]
    kept = [p.question for _, p in problems_of(task, held_out=True, first=4, most=2, seed=9)]
    assert kept == [problem_of(task, n).question for n in (4, 5)]


def test_a_finite_task_ends(tmp_path: Path) -> None:
    from gradus.training.plan import load_task

    (tmp_path / "d.jsonl").write_text("".join(f'{{"prompt": "{i}+1", "answer": "{i + 1}"}}\n' for i in range(6)))
    task = load_task(str(tmp_path / "d.jsonl"))
    size = task.source.size
    score, _ = typed(task, *["answer: 1"] * 99)
    assert len(score.rewards) == size
    with pytest.raises(UserError, match=f"problem {size} does not exist; choose one of the training problems of d: 0 to {size - 1}"):
        typed(task, first=size)


@dataclass(frozen=True)
class Broken:
    def start(self, problem: Problem, key: Key, world: Any) -> Broken:
        return self

    first = Turn("act!")

    async def step(self, action: str) -> Any:
        if action == "raise":
            raise ValueError("fell over")
        return "no turn"


def test_what_fails_is_said_with_its_line() -> None:
    def verify(problem: Problem, completion: str) -> float:
        raise ValueError("no number")

    score, out = typed(replace(arithmetic(), verify=verify), "1", most=1)
    assert out[2].startswith("verdict: not judged: the verifier raised ValueError: no number (test_play.py, line")
    assert out[-1] == "score: 0 of 0 right; 1 not judged"
    assert score.failed == 1
    broken = replace(frozen_lake(), environment=Broken())
    out = typed(broken, "raise", "x", most=2)[1]
    assert "fell over (test_play.py, line" in out[3]
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text == "class Broken:")
    assert "not judged: the environment gave 'no turn' in place of a Turn" in out[-2]
    assert f"(test_play.py, line {line - 1})" in out[-2]  # from its decorator on
    with pytest.raises(UserError, match="has no verifier, so Gradus cannot judge your answers"):
        typed(replace(arithmetic(), verify=None), "1")


def test_a_task_shows_its_system_message_and_its_own_environment() -> None:
    task = replace(search_qa(), system="Be brief.")
    out = typed(task, "/quit")[1]
    assert out[0] == "problem 0: system: Be brief."
    assert out[1].startswith("user: ")


def test_the_errands_of_an_episode_are_shown_and_played_too() -> None:
    task = research(1, people=40)
    (problem,) = task.source.draw([0], 1, Key(0).fold("problems"))
    (errand,) = problem.meta["errands"]
    lines = [problem.meta["demonstration"][0][1], *(words for _, words in errand["demonstration"]), f"answer: {problem.answer}"]
    score, out = typed(task, *lines, most=1)
    assert score.right == 1
    shown = "\n".join(out)
    assert f"a sub-agent goes on, as explorer: {errand['prompt']}\n{errand['demonstration'][0][0]}\n" in shown
    assert errand["demonstration"][1][0] in shown  # the page


def test_ctrl_c_leaves() -> None:
    def lines() -> Any:
        yield "=1\n"
        raise KeyboardInterrupt

    out = io.StringIO()
    task = arithmetic()
    score = play(task, problems_of(task, held_out=False, first=0, most=None, seed=0), lines(), writer(out))
    assert len(score.rewards) == 1


def test_the_command_over_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("right\n/quit\n"))
    assert main(["play", "frozen_lake", "--level", "1", "--problem", "2", "--task.slip", "0.5", "--held-out"]) == 0
    out = capsys.readouterr().out.splitlines()
    kept = frozen_lake().held_out.draw([2], 1, Key(0).fold("held out"))[0]
    assert out[:4] == [f"problem 2: {kept.question}", *kept.meta["map"]]
    assert out[4] == "> right"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["arithmetics"], 'unknown task "arithmetics"'),
        (["flow_2d"], "task flow_2d is for a generator"),
        (["arithmetic", "--problems", "0"], "--problems is 0"),
        (["arithmetic", "--problem", "-1"], "problem -1 does not exist"),
        (["arithmetic", "--seed", "-1"], "--seed is -1"),
        (["arithmetic", "--learning_rate", "1"], '--learning_rate is not an option of gradus play'),
        (["arithmetic", "--task.lvel", "1"], "did you mean --task.level"),
        (["arithmetic", "--level", "2", "--task.level", "3"], "--level and --task.level set the same option"),
        (["arithmetic", "--level", "99"], "task arithmetic has levels"),
    ],
)
def test_mistakes_are_told(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["play", *words]) == 2
    assert sentence in capsys.readouterr().err
