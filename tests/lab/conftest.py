"""Groups with every shape that a rollout can have: fixtures that are functions, so that a test makes as many as it wants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradus.types import NOT_APPLICABLE, Context, Ended, Failed, Frozen, Group, Problem, Trajectory, prompt_context


def make_context(count: int, seed: int, parent: tuple[Context, int] | None = None, **more: object) -> Context:
    """`count` chosen tokens."""
    rng = np.random.default_rng(seed)
    return Context(
        tokens=rng.integers(0, 1000, count).astype(np.int32),
        chosen=np.ones(count, dtype=bool),
        logprobs=rng.normal(size=count).astype(np.float32),
        versions=np.full(count, seed, np.int32),
        parent=parent,
        **more,  # type: ignore[arg-type]
    )


def make_group(name: str = "p1", size: int = 3, seed: int = 0) -> Group:
    """One prompt, `size` answers, rewards 0, 1, 2, ..."""
    problem = Problem(name, "arithmetic", messages=({"role": "user", "content": f"{name}: 1 + 1?"},), answer=2, meta=Frozen(level=1))
    prompt = prompt_context(range(10, 15))
    trajectories = tuple(
        Trajectory(
            f"{name}/{i}",
            problem,
            (make_context(3 + i, seed + i, (prompt, 5)),),
            completion=f"it is {i}",
            reward=float(i),
            components=Frozen(correct=float(i)),
            advantages=np.full(3 + i, i - 1.0),
        )
        for i in range(size)
    )
    return Group(name, trajectories, pool=tuple(float(i) for i in range(size)))


def make_strange() -> list[Group]:
    """A tree, several contexts, actions that are rows, failures, nothing chosen, odd numbers and odd text; one trajectory in two groups."""
    raw = Problem(
        "raw",
        "text",
        text="to go on \ud800 </script>\x00",
        answer={"x": [1, None]},
        meta=Frozen(hints=["a", {"b": 1}], path={3}),
        plain=True,
    )
    root = prompt_context([1, 2, 3])
    trunk = make_context(4, 1, (root, 3))
    leaf = make_context(2, 2, (trunk, 5), rewards=((1, "hit", 0.5),), ended=Ended.CONTEXT)
    odd = np.array([np.nan, -0.0, 0.0, np.inf], np.float32)
    odd.view(np.uint32)[0] = 0x7FC00123  # a NaN with a mark of its own
    noisy = Context(
        tokens=np.zeros(4, np.int32),
        chosen=np.array([True, False, True, True]),
        streams=Frozen(
            latents=np.arange(12, dtype=np.float64).reshape(3, 2, 2),
            state=np.array(["a", "bc", ""]),
            none=np.zeros((3, 0), np.int8),
        ),
        temperature=0.7,
    )
    floats = Context(np.arange(4, dtype=np.int32), np.ones(4, bool), odd, np.zeros(4, np.int32))
    empty = Trajectory("empty", raw, (prompt_context([]),), ended=Ended.FAILED, reward=Failed("it raised:\nno"))
    tree = Trajectory("tree", raw, (trunk, leaf), reward=NOT_APPLICABLE, source="expert", trained=False, weight=0.25)
    rows = Trajectory("rows", raw, (noisy,), player="flow", links=Frozen(parent=tree, episode=3, near=np.int64(2)))
    parts: Frozen = Frozen(correct=Failed("timed out"), style=NOT_APPLICABLE, length=-0.5)
    mixed = Trajectory("mixed", raw, (floats,), reward=1, components=parts, returns=np.array([1.0, -0.0, np.nan, 2.0]))
    return [Group("one", (tree, rows, mixed, empty), pool=(1.0, Failed("late"), NOT_APPLICABLE)), Group("two", (tree,)), Group("none", ())]


@pytest.fixture
def context() -> Callable[..., Context]:
    return make_context


@pytest.fixture
def group() -> Callable[..., Group]:
    return make_group


@pytest.fixture
def strange() -> Callable[[], list[Group]]:
    return make_strange
