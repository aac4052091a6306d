"""What an environment answers: every misfit is a failure of its episode alone, with the line to fix."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradus.rollouts.environment_calls import closed, gate, misfit, short, started, stepped
from gradus.rollouts.episodes import Episodes
from gradus.runtime.user_code import load_object
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Failed, FailureKind, Key, Problem, Request, UserError
from gradus.types.parts import Task, Turn
from tests.rollouts.test_episodes import THREE, play, play_all

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
        ({"kind": ""}, "the environment's step is not a coroutine; write async def step (mine.py, line 7)"),
        ({"step": "return Turn('', reward='1')"}, "the environment gave the reward '1'; it must be a number (mine.py, line 7)"),
        ({"step": "return Turn('', reward=float('nan'))"}, "the environment gave the reward nan; it must be finite (mine.py, line 7)"),
        ({"step": "return Turn('', 0, True, True)"}, "the environment gave a turn that is both terminated and truncated; set one of them (mine.py, line 7)"),
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
    assert not isinstance(asyncio.run(started(environment, PROBLEM, Key(0), SimpleNamespace(), 60.0)), Failed)  # type: ignore[arg-type]
    failed = asyncio.run(started(other, PROBLEM, Key(0), SimpleNamespace(), 60.0))  # type: ignore[arg-type]
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
    environment = mine(tmp_path, step="from gradus.types import UserError; raise UserError('fix this')")
    episode = asyncio.run(started(environment, PROBLEM, Key(0), SimpleNamespace(), 60.0))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="fix this"):
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
    episode = asyncio.run(started(mine(tmp_path, **wrong), PROBLEM, Key(0), SimpleNamespace(), 60.0))  # type: ignore[arg-type]
    assert asyncio.run(stepped(episode, "a", ("policy",), 0.1)) == Failed(LATE, FailureKind.TIMEOUT)  # type: ignore[arg-type]


def test_a_step_that_is_cancelled_from_outside_is_no_failure(tmp_path: Any) -> None:
    episode = asyncio.run(started(mine(tmp_path, step="import asyncio; await asyncio.sleep(600)"), PROBLEM, Key(0), SimpleNamespace(), 60.0))  # type: ignore[arg-type]

    async def outside() -> None:
        async with asyncio.timeout(0.05):
            await stepped(episode, "a", ("policy",), 600.0)  # type: ignore[arg-type]

    with pytest.raises(TimeoutError):
        asyncio.run(outside())


LATER = """import asyncio
from gradus.types.parts import Turn

OPEN = []

class World:
    together = {together}

    async def start(self, problem, key, world):
        {start}
        return Page(self)

class Page:
    first = Turn('go')

    def __init__(self, world):
        self.closes = 0
        OPEN.append(self)
        self.most = len([p for p in OPEN if not p.closes])

    async def step(self, action):
        await asyncio.sleep(0)
        {step}

    async def close(self):
        self.closes += 1
        {close}
"""


def later(folder: Any, **words: Any) -> Any:
    """An environment of a user's own file that starts by a coroutine and holds something open."""
    start, step = words.get("start", "await asyncio.sleep(0)"), words.get("step", "return Turn('end', 1.0, terminated=True)")
    close, together = words.get("close", "pass"), words.get("together")
    path = folder / "later.py"
    path.write_text(LATER.format(start=start, step=step, close=close, together=together))
    return load_object(f"{path}:World", "environment")()


def pages(environment: Any) -> list[Any]:
    import sys

    return list(sys.modules[type(environment).__module__].OPEN)


def test_a_start_that_is_awaited(tmp_path: Any) -> None:
    environment = later(tmp_path)
    trajectory = play(environment)
    assert (trajectory.reward, trajectory.failed) == (1.0, None)
    assert [page.closes for page in pages(environment)] == [1]


@pytest.mark.parametrize(
    ("wrong", "said", "kind"),
    [
        ({"start": "raise KeyError('map')"}, "the environment could not start: KeyError: 'map' (later.py, line 10)", FailureKind.RAISED),
        ({"start": "await asyncio.sleep(600)"}, "the environment did not start within 0.1 seconds", FailureKind.TIMEOUT),
        ({"step": "raise KeyError('x')"}, "the environment raised KeyError: 'x' (later.py, line 23)", FailureKind.RAISED),
        ({"step": "await asyncio.sleep(600)"}, "the environment did not answer within 0.1 seconds", FailureKind.TIMEOUT),
    ],
)
def test_whatever_happens_an_episode_is_closed_once(wrong: Any, said: str, kind: FailureKind, tmp_path: Any) -> None:
    environment = later(tmp_path, **wrong)
    trajectory = play(environment, Episodes(timeout=0.1))
    assert trajectory.reward == Failed(said, kind)
    assert [page.closes for page in pages(environment)] == [1] * ("step" in wrong)


def test_an_episode_is_closed_if_the_run_ends(tmp_path: Any) -> None:
    environment = later(tmp_path, step="from gradus.types import UserError; raise UserError('fix this')")
    with pytest.raises(UserError, match="fix this"):
        play(environment)
    assert [page.closes for page in pages(environment)] == [1]


def test_a_close_that_fails_is_counted_and_the_episode_stays(tmp_path: Any) -> None:
    environment = later(tmp_path, close="raise OSError('gone')")
    world, _ = scripted_world(Task("later", TOY.source, TOY.held_out, environment=environment), lambda ask: "a")
    (group,) = asyncio.run(Episodes().run([Request(PROBLEM, count=2)], world))
    assert [t.reward for t in group.trajectories] == [1.0, 1.0]
    assert world.notes["close_failed"] == 1.0
    failed = asyncio.run(closed(pages(environment)[0], 1.0))
    assert isinstance(failed, Failed)
    assert failed.reason.startswith("the environment's close failed: OSError: gone (later.py, line 27)")


def test_an_episode_that_cannot_be_played_is_closed(tmp_path: Any) -> None:
    environment = later(tmp_path, start="Page.first = Turn('', terminated=True)")
    assert play(environment).failed == "the environment ended before the first action"
    assert [page.closes for page in pages(environment)] == [1]


@pytest.mark.parametrize(("together", "most"), [(None, 5), (2, 2), (1, 1)])
def test_no_more_episodes_at_a_time_than_the_environment_holds(together: Any, most: int, tmp_path: Any) -> None:
    environment = later(tmp_path, together=together)
    (group,) = play_all(environment, Episodes(), [Request(PROBLEM, count=5)], "a")
    assert [t.reward for t in group.trajectories] == [1.0] * 5
    assert len(pages(environment)) == 5
    assert max(page.most for page in pages(environment)) == most


@pytest.mark.parametrize("together", [0, -1, 1.5, True])
def test_a_limit_that_is_no_number_of_episodes_is_refused(together: Any) -> None:
    with pytest.raises(UserError, match=r"environment.together is .* it must be a number of episodes, 1 or more"):
        gate(SimpleNamespace(together=together))  # type: ignore[arg-type]


def test_the_limit_changes_no_byte(tmp_path: Any) -> None:
    """Draws are keyed, so episodes in turn equal episodes at once."""
    turns = "self.n = getattr(self, 'n', 0) + 1; return Turn(str(self.n), 0.5, terminated=self.n == 3)"
    found = []
    for together in (None, 1):
        folder = tmp_path / str(together)
        folder.mkdir()
        (group,) = play_all(later(folder, step=turns, together=together), Episodes(), [Request(PROBLEM, count=3)], "abc")
        found.append([[c.sequence.tolist() for c in t.contexts] for t in group.trajectories])
    assert found[0] == found[1]


def test_the_reward_of_a_chunk_is_the_sum_of_its_steps() -> None:
    assert misfit(Turn("", 0.3, steps=(0.1, 0.2))) is None
    assert "its steps have the rewards [0.1, 0.1]; the reward must be their sum" in (misfit(Turn("", 0.3, steps=(0.1, 0.1))) or "")
