"""The trajectories of a run as an Arrow table with one row per trajectory, for data frames and other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradus.lab.arrow import plain_json
from gradus.types import Group, Trajectory
from gradus.types.media import readable

if TYPE_CHECKING:
    import pyarrow as pa


def schema() -> pa.Schema:
    """Returns the columns.

    `tokens` and `chosen` have one list per context. The columns from `logprobs` to `returns` have one value per action, over all contexts in order.
    """
    import pyarrow as pa

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    return pa.schema(
        [
            *[("step", pa.int64()), ("group", pa.string()), ("id", pa.string()), ("player", pa.string()), ("source", pa.string())],
            *[("task", pa.string()), ("problem", pa.string()), ("messages", pa.list_(message)), ("text", pa.string())],
            ("answer", pa.string()),  # JSON
            *[("completion", pa.string()), ("ended", pa.string())],
            *[("reward", pa.float64()), ("failed", pa.string()), ("right", pa.bool_()), ("components", pa.map_(pa.string(), pa.float64()))],
            *[("trained", pa.bool_()), ("aside", pa.bool_()), ("weight", pa.float64()), ("temperature", pa.float64()), ("actions", pa.int64())],
            *[("tokens", pa.list_(pa.list_(pa.int32()))), ("chosen", pa.list_(pa.list_(pa.bool_())))],
            *[("logprobs", pa.list_(pa.float32())), ("versions", pa.list_(pa.int32()))],
            ("extra", pa.string()),  # JSON of the columns that a reward function logged
            *[("advantages", pa.list_(pa.float64())), ("returns", pa.list_(pa.float64()))],
            ("weights", pa.list_(pa.float64())),  # weights of single actions; null: all 1
        ]
    )


def step_table(step: int, groups: Sequence[Group]) -> pa.Table:
    """Returns the rows of one step, in the order of its groups."""
    import pyarrow as pa

    return pa.Table.from_pylist([_row(step, g, t) for g in groups for t in g.trajectories], schema=schema())


def table(steps: Iterable[tuple[int, Sequence[Group]]]) -> pa.Table:
    """Returns the rows of all steps."""
    import pyarrow as pa

    return pa.concat_tables([schema().empty_table(), *(step_table(step, groups) for step, groups in steps)])


def _row(step: int, group: Group, t: Trajectory) -> dict[str, Any]:
    p = t.problem
    told = [
        {"role": str(m["role"]), "content": readable(m)} for m in p.messages
    ]
    numbers = [(name, float(v)) for name, v in t.components.items() if isinstance(v, (int, float))]
    return {
        **{"step": step, "group": group.key, "id": t.id, "player": t.player, "source": t.source},
        **{"task": p.task, "problem": p.id, "messages": [_clean(m) for m in told], "text": _text(p.text), "answer": plain_json(p.answer)},
        **{"completion": _text(t.completion), "ended": t.ended.value},
        **{"reward": None if t.failed is not None else t.value, "failed": _text(t.failed), "right": t.right, "components": numbers},
        **{
            "trained": t.trained,
            "aside": group.aside,
            "weight": t.weight,
            "temperature": t.contexts[0].temperature if t.contexts else None,
            "actions": t.actions,
        },
        "tokens": [c.sequence for c in t.contexts],
        "chosen": [np.concatenate([np.zeros(len(c.prefix), bool), c.chosen]) for c in t.contexts],
        "logprobs": _joined([c.logprobs for c in t.contexts]),
        "versions": _joined([c.versions for c in t.contexts]),
        "extra": plain_json(t.extra) if t.extra else None,
        **{"advantages": t.advantages, "returns": t.returns, "weights": t.weights},
    }


def _joined(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Returns the arrays of all contexts, concatenated; None if a context has no array."""
    present = [a for a in arrays if a is not None]
    return np.concatenate(present) if present and len(present) == len(arrays) else None


def _text(text: str | None) -> str | None:
    """Returns the text in a form that UTF-8 can encode: a lone surrogate becomes a question mark."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _clean(message: dict[str, str]) -> dict[str, str]:
    return {name: str(_text(value)) for name, value in message.items()}
