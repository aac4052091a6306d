"""What an environment answers: every misfit is a failure of its episode alone, with the line to mend."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradus.rollouts.environment_calls import misfit, short, started, stepped
from gradus.runtime.user_code import load_object
from gradus.types import Failed, FailureKind, Key, Problem, UserError
from gradus.types.parts import Turn
from tests.rollouts.test_episodes import THREE, play

PROBLEM = Problem("p", "mine", text="go")
FILE = """from gradus.types.parts import Turn

class World:
    def start(self, problem, key, world):
        {start}

class Game:
    first = {first}

    {kind}def step(self, action):
        {step}
"""


def mine(folder: Any, start: str = "return Game()", first: str = "Turn('go')", step: str = "return Turn('s')", kind: str = "async ") -> Any:
    """An environment of a user's own file."""
    path = folder / "mine.py"
    path.write_text(FILE.format(start=start, first=first, step=step, kind=kind))
    return load_object(f"{path}:World", "environment")()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": "raise KeyError('map')"}, "the environment could not start: KeyError: 'map' (mine.py, line 5)"),
        ({"start": "pass"}, "start gave None, which is not an episode; it must have `first` (a Turn) and `async def step(self, action)` (mine.py, line 3)"),
        ({"first": "'go'"}, "the environment's first turn gave 'go' in place of a Turn; return gradus.types.parts.Turn(observation, reward) (mine.py, line 7)"),
        ({"first": "Turn(3)"}, 'first turn gave the observation 3; it must be text, or a tuple of messages {"role": ..., "content": text} (mine.py, line 7)'),
        ({"first": "Turn('', terminated=True)"}, "the environment ended before the first action"),
        ({"step": "raise KeyError('x')"}, "the environment raised KeyError: 'x' (mine.py, line 11)"),
        ({"step": "return Turn([][0])"}, "the environment raised IndexError: list index out of range (mine.py, line 11)"),
        ({"step": "return 'higher'"}, "the environment gave 'higher' in place of a Turn; return gradus.types.parts.Turn(observation, reward) (mine.py, line 7)"),
        ({"start": "raise SystemExit"}, "the environment could not start: SystemExit (mine.py, line 5)"),
        ({"step": "raise SystemExit(3)"}, "the environment raised SystemExit: 3 (mine.py, line 11)"),
        ({"step": "import asyncio; raise asyncio.CancelledError"}, "the environment raised CancelledError (mine.py, line 11)"),
        ({"kind": ""}, "the environment's step answered without being awaited; write it as async def step (mine.py, line 7)"),
        ({"step": "return Turn('', reward='1')"}, "the environment gave the reward '1'; it must be a number (mine.py, line 7)"),
        ({"step": "return Turn('', reward=float('nan'))"}, "the environment gave the reward nan; it must be finite (mine.py, line 7)"),
        ({"step": "return Turn('', 0, True, True)"}, "the environment said both terminated and truncated; say one of them (mine.py, line 7)"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_misfit_fails_the_episode_and_names_the_line(wrong: dict[str, str], said: str, tmp_path: Any) -> None:
    reward = play(mine(tmp_path, **wrong)).reward
    assert isinstance(reward, Failed)
    assert reward.reason.endswith(said)


def test_a_method_that_takes_other_arguments_is_named_by_its_class(tmp_path: Any) -> None:
    environment = mine(tmp_path)
    (tmp_path / "other.py").write_text("\nclass Other:\n    def start(self, problem): ...\n")
    other = load_object(f"{tmp_path}/other.py:Other", "environment")()
    assert not isinstance(started(environment, PROBLEM, Key(0), SimpleNamespace(), 60.0), Failed)  # type: ignore[arg-type]
    failed = started(other, PROBLEM, Key(0), SimpleNamespace(), 60.0)  # type: ignore[arg-type]
    assert isinstance(failed, Failed)
    assert failed.reason.endswith("takes 2 positional arguments but 4 were given (other.py, line 2)")
    assert failed.kind is FailureKind.RAISED


@pytest.mark.parametrize("told", ["", "x", ({"role": "user", "content": "x"},), [{"role": "user", "content": "x"}], ()])
@pytest.mark.parametrize("reward", [0, 1.5, True, np.float32(2), np.int64(-1)])
def test_what_fits_is_left_alone(told: Any, reward: Any) -> None:
    assert misfit(Turn(told, reward)) is None
    assert play(THREE).failed is None


@pytest.mark.parametrize(
    "told", [None, 3, b"x", ("x",), ({"role": "user"},), ({"role": 1, "content": "x"},), {"role": "user", "content": "x"}]
)
def test_an_observation_of_another_form_is_named(told: Any) -> None:
    assert "gave the observation" in (misfit(Turn(told)) or "")


def test_an_error_for_the_user_is_passed_on(tmp_path: Any) -> None:
    environment = mine(tmp_path, step="from gradus.types import UserError; raise UserError('mend this')")
    episode = started(environment, PROBLEM, Key(0), SimpleNamespace(), 60.0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="mend this"):
        asyncio.run(stepped(episode, "a", ("policy",), 60.0))  # type: ignore[arg-type]


def test_a_value_is_shown_alike_in_every_process() -> None:
    assert [short(v) for v in (None, "a\nb", [1], object(), THREE)] == ["None", "'a\\nb'", "[1]", "a object", "a Line"]
    assert len(short("x" * 1000)) == 60


LATE = "the environment did not answer within 0.1 seconds"


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "while True: pass"},
        {"step": "while True: pass", "kind": ""},
        {"step": "import asyncio; await asyncio.sleep(600)"},
        {"step": "import contextlib, asyncio\n        with contextlib.suppress(BaseException): await asyncio.sleep(600)\n        return Turn('s')"},
        {"step": "import asyncio\n        try: await asyncio.sleep(600)\n        except BaseException: raise ValueError from None"},
    ],
)  # fmt: skip
def test_a_step_that_is_late_has_failed_whatever_comes_of_it(wrong: dict[str, str], tmp_path: Any) -> None:
    episode = started(mine(tmp_path, **wrong), PROBLEM, Key(0), SimpleNamespace(), 60.0)  # type: ignore[arg-type]
    assert asyncio.run(stepped(episode, "a", ("policy",), 0.1)) == Failed(LATE, FailureKind.TIMEOUT)  # type: ignore[arg-type]


def test_a_step_that_is_cancelled_from_outside_is_no_failure(tmp_path: Any) -> None:
    episode = started(mine(tmp_path, step="import asyncio; await asyncio.sleep(600)"), PROBLEM, Key(0), SimpleNamespace(), 60.0)  # type: ignore[arg-type]

    async def outside() -> None:
        async with asyncio.timeout(0.05):
            await stepped(episode, "a", ("policy",), 600.0)  # type: ignore[arg-type]

    with pytest.raises(TimeoutError):
        asyncio.run(outside())
