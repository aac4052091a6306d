"""Games of textarena against textarena itself: equal turns, equal rewards, and nothing of the caller's changed."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradus.api import train
from gradus.cli.episodes import played
from gradus.cli.play import Person
from gradus.rollouts.episodes import Episodes
from gradus.tasks.packages.textarena import HELD_OUT, ONE_PLAYER, TAIL, task
from gradus.testing import Effort, check_task
from gradus.training.plan import TASKS, load_task
from gradus.types import Key, Problem, Request, UserError
from gradus.types.parts import Turn

textarena = pytest.importorskip("textarena")

ACTIONS = {
    "2048-v0": ("[up]", "[left]", "[down]", "[right]"),
    "Bandit-v0": ("[red]", "[blue]", "[green]"),
    "Blackjack-v0": ("[hit]", "[stand]"),
    "FrozenLake-v0-random": ("[up]", "[left]", "[down]", "[right]"),
    "GuessTheNumber-v0": ("[3]", "[9]", "[12]", "[15]", "18", "no number"),
    "LightsOut-v0": ("[0 0]", "[1 2]", "[3 3]"),
    "LogicPuzzle-v0": ("[A B X]", "[B C O]"),
    "Mastermind-v0": ("[1 2 3 4]", "[4 3 2 1]", "[2 3 4 5]"),
    "Minesweeper-v0": ("[1 1]", "[5 5]", "[flag 2 2]", "[7 0]"),
    "Sudoku-v0": ("[1 1 1]", "[2 3 4]", "[9 9 9]"),
    "TowerOfHanoi-v0": ("[A B]", "[A C]", "[B C]", "[C A]"),
}
"""Actions of games that draw from the random generator, most of them legal."""
SMALL = Effort(problems=3, texts=60)


def chosen(game: str, seed: int) -> list[str]:
    return random.Random(seed).choices(ACTIONS[game], k=30)


def by_textarena(game: str, seed: int, actions: list[str]) -> tuple[list[str], float | None, int]:
    """What textarena itself says before each action, its reward, and the number of actions played: as its documentation plays a game."""
    env = textarena.make(game)
    env.reset(num_players=1, seed=seed)
    said = []
    for number, action in enumerate(actions, 1):
        _, observation = env.get_observation()
        said.append(observation)
        done, _ = env.step(action=action)
        if done:
            rewards, _ = env.close()
            return said, rewards[0], number
    return said, None, len(actions)


async def turns_of(episode: Any, actions: list[str]) -> list[Turn]:
    turns = [episode.first]
    for action in actions:
        turns.append(await episode.step(action))
        if turns[-1].terminated:
            break
    return turns


@pytest.mark.parametrize("game", ACTIONS)
def test_an_episode_is_that_of_textarena(game: str) -> None:
    """Rewards and lengths are equal, and every message of textarena's full observation comes once, in order."""
    made = task(game)
    for problem in made.held_out.draw(range(4), None, Key(0)):
        seed = problem.meta["seed"]
        actions = chosen(game, seed)
        said, reward, count = by_textarena(game, seed, actions)
        turns = asyncio.run(turns_of(made.environment.start(problem, Key(9), None), actions))
        assert len(turns) - 1 == count
        assert turns[-1].terminated is (reward is not None)
        assert turns[-1].reward == (reward or 0)
        assert all(turn.reward == 0 for turn in turns[:-1])
        place = 0
        for told in [problem.question, *(str(turn.observation) for turn in turns[1:count])]:
            for line in told.splitlines():
                place = said[-1].index(line.strip(), place)


@pytest.mark.parametrize("game", ["2048-v0", "Blackjack-v0", "Minesweeper-v0"])
def test_two_episodes_by_turns_are_two_episodes_one_after_the_other(game: str) -> None:
    made = task(game)
    problems = made.source.draw(range(2), None, Key(0))
    lists = [chosen(game, seed) for seed in (1, 2)]

    def new() -> list[Any]:
        return [made.environment.start(problem, Key(0), None) for problem in problems]

    async def by_turns() -> list[list[Turn]]:
        episodes = new()
        turns = [[episode.first] for episode in episodes]
        for step in range(30):
            for episode, told, actions in zip(episodes, turns, lists, strict=True):
                if not told[-1].terminated:
                    random.random()
                    told.append(await episode.step(actions[step]))
        return turns

    alone = [asyncio.run(turns_of(episode, actions)) for episode, actions in zip(new(), lists, strict=True)]
    assert asyncio.run(by_turns()) == alone


def test_the_callers_random_numbers_and_output_are_untouched(capsys: pytest.CaptureFixture[str]) -> None:
    random.seed(11)
    before = random.getstate()
    made = task("LogicPuzzle-v0")  # it prints
    (problem,) = made.source.draw([0], None, Key(0))
    asyncio.run(turns_of(made.environment.start(problem, Key(0), None), chosen("LogicPuzzle-v0", 0)))
    assert random.getstate() == before
    assert capsys.readouterr().out == ""


def test_problems_are_seeds_and_held_out_seeds_are_others() -> None:
    made = load_task("textarena:Sudoku-v0")
    one, two = made.source.draw([3, 4], None, Key(0)), made.source.draw([4], None, Key(0))
    assert one[1] == two[0]
    assert one[0].question != one[1].question
    seeds = [[p.meta["seed"] for p in source.draw(range(40), None, Key(1))] for source in (made.source, made.held_out)]
    assert max(seeds[0]) < HELD_OUT <= min(seeds[1])
    assert len({*seeds[0], *seeds[1]}) == 80


@pytest.mark.parametrize("game", ["Blackjack-v0", "GuessTheNumber-v0", "Minesweeper-v0-train", "TowerOfHanoi-v0-raw"])
def test_the_contract_is_kept(game: str) -> None:
    def wins(problem: Problem) -> list[str]:
        if game != "GuessTheNumber-v0":
            return []
        state = random.getstate()
        env = textarena.make(game)
        env.reset(num_players=1, seed=problem.meta["seed"])
        random.setstate(state)
        return [f"[{env.game_number}]"]

    check_task(task(game), right=wins, effort=SMALL, strict=True)


@pytest.mark.nightly
@pytest.mark.parametrize("game", ONE_PLAYER)
def test_every_listed_game_keeps_the_contract(game: str) -> None:
    try:
        made = task(game)
    except UserError as error:
        if "python -m nltk.downloader" not in str(error):
            raise
        pytest.skip("its word lists are not on this machine")
    check_task(made, effort=SMALL, strict=True)


def test_the_held_out_result_is_that_of_textarena() -> None:
    """A fixed policy on held-out games: reward and accuracy by our rollout, and by textarena alone."""
    made = task("GuessTheNumber-v0")
    problems = made.held_out.draw(range(30), None, Key(0).fold("held out"))
    guesses = [f"[{n}]" for n in (10, 5, 15, 3, 8, 13, 18, 1, 6, 11, 16, 20)]
    ours = [played(made, Person(iter(guesses), print), Request(p), Episodes(), sampling=made.sampling, seed=Key(0)) for p in problems]
    theirs = [by_textarena("GuessTheNumber-v0", p.meta["seed"], guesses)[1] for p in problems]
    assert [t.reward for t in ours] == theirs
    assert sum(t.right for t in ours) == sum(reward == 1 for reward in theirs) > 5
    assert len(set(theirs)) > 3


def test_two_steps_train() -> None:
    run = train(
        "grpo", "textarena:Blackjack-v0", steps=2, setting__prompts=2, setting__group=2, setting__max_tokens=6, setting__eval_every=0, study=None,
        task_options={"config": '{"num_hands": 1}'},
    )  # fmt: skip
    assert [row["step"] for row in run.metrics] == [0, 1]
    assert all("reward" in row for row in run.metrics)


def test_settings_of_a_game() -> None:
    assert "between 1 and 7 within 2 turns" in load_task(
        "textarena:GuessTheNumber-v0", {"config": '{"max_number": 7, "max_turns": 2}'}
    ).source.draw([0], None, Key(0))[0].question


def test_long_and_illegal_actions() -> None:
    made = task("GuessTheNumber-v0")
    (problem,) = made.source.draw([0], None, Key(0))
    turns = asyncio.run(turns_of(made.environment.start(problem, Key(0), None), ["[" + "9" * 10**6 + "]", "what?"]))
    assert [turn.valid for turn in turns] == [True, False, False]
    assert "invalid move" in str(turns[1].observation)
    assert "Invalid Move" in str(turns[2].observation)
    assert turns[2].terminated
    assert len({turn.state for turn in turns}) == 3
    short = asyncio.run(turns_of(made.environment.start(problem, Key(0), None), [("x" * TAIL + "[5]")[-TAIL:]]))
    assert asyncio.run(turns_of(made.environment.start(problem, Key(0), None), ["x" * TAIL + "[5]"]))[1].observation == short[1].observation


@pytest.mark.parametrize(
    ("game", "args", "sentence"),
    [
        ("GuessTheNumbr-v0", "{}", r"unknown game of the package textarena .*did you mean GuessTheNumber-v0.*games for one player are 2048-v0"),
        ("TicTacToe-v0", "{}", "cannot be played here by one player: AssertionError: The number of players has to be 2"),
        ("QuantumTicTacToe-v0", "{}", "is for several players"),
        ("TwentyQuestions-v0", "{}", "OpenRouter API key not found"),
        ("Blackjack-v0", '{"hands": 1}', "unexpected keyword argument 'hands'; check the settings of --task.config"),
        ("Blackjack-v0", "[1]", "cannot be read; write key=value"),
        ("Blackjack-v0", "{", "cannot be read; write key=value"),
    ],
)
def test_what_cannot_be_played_is_refused(game: str, args: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(UserError, match=sentence):
        task(game, args)


def test_a_game_that_asks_a_language_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "none")
    with pytest.raises(UserError, match="uses a language model over the network"):
        task("TwentyQuestions-v0-hardcore")


def test_names() -> None:
    assert "textarena:Wordle-v0" in TASKS
    assert set(ONE_PLAYER) <= set(textarena.envs.registration.ENV_REGISTRY)


WORDLE = """
import asyncio, json, pathlib, sys
import nltk
from gradus.tasks.packages.textarena import task
from gradus.types import Key, UserError

try:
    task("Wordle-v0")
except UserError as error:
    print(error)
root = pathlib.Path(sys.argv[1])
words, tagger = root / "corpora" / "words", root / "taggers" / "averaged_perceptron_tagger_eng"
for folder in (words, tagger):
    folder.mkdir(parents=True)
for name in ("en", "en-basic"):
    (words / name).write_text("apple\\nhouse\\nriver\\ngo\\n")
tags = dict.fromkeys(("apple", "house", "river", "test", "table"), "NN") | {"go": "VB"}
for name, content in (("weights", {}), ("tagdict", tags), ("classes", ["NN", "VB"])):
    (tagger / f"averaged_perceptron_tagger_eng.{name}.json").write_text(json.dumps(content))
nltk.data.path[:] = [str(root)]
made = task("Wordle-v0")
(problem,) = made.held_out.draw([0], None, Key(0))

async def play():
    episode = made.environment.start(problem, Key(0), None)
    secret = episode.inner.state.game_state["secret_word"]
    first, second = await episode.step("[table]"), await episode.step(secret)
    print(secret in ("apple", "house", "river"), first.terminated, second.terminated, second.reward)

asyncio.run(play())
"""


def test_word_games_read_local_data_and_never_a_network(tmp_path: Path) -> None:
    """Without the data a sentence says how to get them; with them, here a few words, the game is played."""
    where = {**os.environ, "NLTK_DATA": str(tmp_path / "none"), "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", WORDLE, str(tmp_path)], capture_output=True, text=True, env=where, check=False)
    assert done.returncode == 0, done.stderr
    missing, played = done.stdout.splitlines()
    assert missing.startswith('this game of the package textarena reads the data "averaged_perceptron_tagger_eng" of nltk, which is not on this machine')
    assert "python -m nltk.downloader words" in missing
    assert played == "True False True 1"
