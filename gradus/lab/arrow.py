"""Converts groups of rollouts to one row of an Arrow table, and back. A shared object is stored once. Arrays keep their bytes.

The row of a step has four lists of structs: problems, contexts (parents first), trajectories and groups. The structs refer to each other by position. Equal
groups give equal columns. Media are stored as references with a digest. The arrays of media are in other files (`gradus.lab.seen`). If JSON cannot represent
a value in a problem's meta or in a trajectory's links, the value becomes text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradus.types import NOT_APPLICABLE, Context, Ended, Failed, Frozen, Group, Outcome, Problem, Trajectory, UserError
from gradus.types.media import Media
from gradus.types.pictures import Take, arrays_of, described, reference, restored, seen_from

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


def encode(step: int, groups: Sequence[Group]) -> pa.Table:
    """Makes a table of one row: step, problems, contexts, trajectories, groups.

    Arrays are stored in the dtype that their record declares.
    """
    import pyarrow as pa

    trajectories = _distinct(t for g in groups for t in g.trajectories)
    contexts = _with_parents(c for t in trajectories for c in t.contexts)
    problems = _distinct(t.problem for t in trajectories)
    at = {id(item): row for items in (trajectories, contexts, problems) for row, item in enumerate(items)}
    columns: dict[str, pa.Array] = {"step": pa.array([step], pa.int64())}
    for name, structs in (
        ("problems", _problems(problems)),
        ("contexts", _contexts(contexts, at)),
        ("trajectories", _trajectories(trajectories, at)),
        ("groups", _groups(groups, at)),
    ):
        columns[name] = pa.ListArray.from_arrays(pa.array([0, len(structs)], pa.int32()), structs)
    if any(g.aside for g in groups):  # a separate column, so that other steps keep their bytes
        columns["aside"] = pa.array([[g.aside for g in groups]], pa.list_(pa.bool_()))
    if any(c.seen for c in contexts):
        columns["seen"] = pa.array([[plain_json(described(c)) if c.seen else None for c in contexts]], pa.list_(pa.string()))
    if any(t.extra for t in trajectories):
        columns["extra"] = pa.array([[plain_json(t.extra) for t in trajectories]], pa.list_(pa.string()))
    if any(t.weights is not None for t in trajectories):
        weights = _lists([t.weights for t in trajectories], np.float64)
        columns["weights"] = pa.ListArray.from_arrays(pa.array([0, len(weights)], pa.int32()), weights)
    return pa.table(columns)


def media(groups: Sequence[Group]) -> dict[str, np.ndarray]:
    """Returns a mapping from digest to array, for all media that the groups' contexts and problems show."""
    trajectories = _distinct(t for g in groups for t in g.trajectories)
    contexts = _with_parents(c for t in trajectories for c in t.contexts)
    return arrays_of(contexts, (t.problem.messages for t in trajectories))


def _no_media(digest: str) -> np.ndarray:
    raise UserError(f"the rollouts contain the media {digest[:8]}, but the array of these media is missing; read the rollouts from the folder of the run")


def decode(table: pa.Table, take: Take = _no_media) -> list[tuple[int, list[Group]]]:
    """Returns the groups of every row of a table that `encode` made. If possible, their arrays are read-only views of the table's memory.

    `take`: a function that returns the array of a digest. The function `take` is required if the rollouts may show media.
    """
    result = []
    for row in range(table.num_rows):
        one = table.slice(row, 1).combine_chunks()
        lists = {name: one.column(name).chunk(0).flatten() for name in ("problems", "contexts", "trajectories", "groups")}
        problems = _read_problems(lists["problems"], take)
        seen = one.column("seen")[0].as_py() if "seen" in one.column_names else None
        contexts = _read_contexts(lists["contexts"], seen, take)
        trajectories = _read_trajectories(lists["trajectories"], problems, contexts)
        extra = one.column("extra")[0].as_py() if "extra" in one.column_names else None
        if extra:
            trajectories = [dataclasses.replace(t, extra=Frozen(json.loads(e))) for t, e in zip(trajectories, extra, strict=True)]
        if "weights" in one.column_names and one.column("weights")[0].is_valid:  # in merged tables, null for steps without weights
            weights = _arrays(one.column("weights").chunk(0).flatten())
            trajectories = [dataclasses.replace(t, weights=w) for t, w in zip(trajectories, weights, strict=True)]
        aside = one.column("aside")[0].as_py() if "aside" in one.column_names else None
        groups = _read_groups(lists["groups"], trajectories)
        result.append((one.column("step")[0].as_py(), [dataclasses.replace(g, aside=a) for g, a in zip(groups, aside, strict=True)] if aside else groups))
    return result


def _distinct(items: Iterable[T]) -> list[T]:
    """Returns each object once, in the order of its first appearance."""
    return list({id(item): item for item in items}.values())


def _with_parents(contexts: Iterable[Context]) -> list[Context]:
    found: dict[int, Context] = {}
    for context in contexts:
        line, at = [context], context.parent
        while at is not None and id(at[0]) not in found:
            line.append(at[0])
            at = at[0].parent
        for one in reversed(line):
            found.setdefault(id(one), one)
    return list(found.values())


# writing


def _lists(arrays: Sequence[np.ndarray | None], dtype: Any) -> pa.Array:
    """Returns one list per row, with null for None."""
    import pyarrow as pa

    lengths = [0 if a is None else len(a) for a in arrays]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"a step of {offsets[-1]} tokens does not fit in one file; use fewer prompts or smaller groups")
    present = [np.asarray(a) for a in arrays if a is not None]
    values = np.concatenate(present, dtype=dtype, casting="same_kind") if present else np.zeros(0, dtype)
    mask = pa.array([a is None for a in arrays], pa.bool_()) if len(present) < len(arrays) else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values), mask=mask)


def _nested(items: Sequence[Sequence[T]], build: Callable[[list[T]], pa.Array]) -> pa.Array:
    """Returns one list of structs per row."""
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum([len(i) for i in items], dtype=np.int64)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), build([one for item in items for one in item]))


def _struct(**columns: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


_DEEPEST = 64  # containers are written up to this depth of nesting


def _texts(texts: Sequence[str | None]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # a lone surrogate: JSON data may hold one, UTF-8 cannot
        return pa.array([t if t is None else t.encode("utf-8", "replace").decode() for t in texts], pa.string())


def _plain(value: Any) -> Any:
    """Returns a value for JSON in place of a value of a type that JSON lacks."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Trajectory, Problem)):
        return value.id
    if isinstance(value, Media):
        return reference(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return f"<{type(value).__name__}>"  # never its repr, which may hold an address


def _flags(values: Iterable[bool]) -> pa.Array:
    import pyarrow as pa

    return pa.array([bool(value) for value in values], pa.bool_())


def plain_json(value: Any) -> str:
    """Returns the JSON of any value. Values whose type JSON does not have are replaced."""
    try:
        return json.dumps(value, default=_plain, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_sayable(value), separators=(",", ":"))


def _sayable(value: Any, around: tuple[int, ...] = ()) -> Any:
    """Returns the value in a form for JSON: its keys are text, its integers are in the range of JSON, and its depth is limited.

    If a container contains itself or is nested too deep, the name of its type replaces the container.

    `around`: the ids of the containers around the value.
    """
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**4000 else hex(value)  # Python writes at most 4,300 digits: the time grows with their square
    if id(value) in around or len(around) > _DEEPEST:
        return f"<{type(value).__name__}>"
    inside = (*around, id(value))
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else plain_json(key): _sayable(held, inside) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(held, inside) for held in value]
    return _sayable(_plain(value), inside)


def _json(values: Iterable[Any]) -> pa.Array:
    return _texts([plain_json(value) for value in values])


def _outcomes(outcomes: Sequence[Outcome | None]) -> pa.Array:
    """Returns one struct per outcome: a value, or the kind and reason of a failure, or neither if the reward does not apply.

    Without a judgement the struct is null.
    """
    import pyarrow as pa

    values = [float(o) if isinstance(o, (int, float)) else None for o in outcomes]
    reasons = _texts([o.told if isinstance(o, Failed) else None for o in outcomes])
    names = ["value", "reason"]
    mask = pa.array([o is None for o in outcomes], pa.bool_()) if None in outcomes else None
    return pa.StructArray.from_arrays([pa.array(values, pa.float64()), reasons], names, mask=mask)


def _problems(problems: Sequence[Problem]) -> pa.Array:
    return _struct(
        id=_texts([p.id for p in problems]),
        task=_texts([p.task for p in problems]),
        messages=_json(p.messages for p in problems),
        text=_texts([p.text for p in problems]),
        answer=_json(p.answer for p in problems),
        meta=_json(p.meta for p in problems),
        plain=_flags(p.plain for p in problems),
    )


def _contexts(contexts: Sequence[Context], at: Mapping[int, int]) -> pa.Array:
    import pyarrow as pa

    parents = [c.parent for c in contexts]
    return _struct(
        tokens=_lists([c.tokens for c in contexts], np.int32),
        chosen=_lists([c.chosen for c in contexts], np.bool_),
        logprobs=_lists([c.logprobs for c in contexts], np.float32),
        versions=_lists([c.versions for c in contexts], np.int32),
        temperature=pa.array([c.temperature for c in contexts], pa.float64()),
        parent=pa.array([None if p is None else at[id(p[0])] for p in parents], pa.int32()),
        at=pa.array([None if p is None else p[1] for p in parents], pa.int32()),
        rewards=_nested([c.rewards for c in contexts], _sparse),
        ended=_texts([c.ended.value for c in contexts]),
        streams=_nested([list(c.streams.items()) for c in contexts], _streams),
    )


def _sparse(rewards: list[tuple[int, str, float]]) -> pa.Array:
    import pyarrow as pa

    actions = pa.array([int(action) for action, _, _ in rewards], pa.int32())
    values = pa.array([float(value) for _, _, value in rewards], pa.float64())
    return _struct(action=actions, component=_texts([name for _, name, _ in rewards]), value=values)


def _streams(streams: list[tuple[str, np.ndarray]]) -> pa.Array:
    import pyarrow as pa

    for name, array in streams:
        if array.dtype.hasobject:
            raise ValueError(f"stream {name!r} contains Python objects; a stream must be an array of numbers or of fixed-width text")
    return _struct(
        name=_texts([name for name, _ in streams]),
        dtype=_texts([array.dtype.str for _, array in streams]),
        shape=pa.array([list(array.shape) for _, array in streams], pa.list_(pa.int64())),
        data=pa.array([array.tobytes() for _, array in streams], pa.large_binary()),
    )


def _trajectories(trajectories: Sequence[Trajectory], at: Mapping[int, int]) -> pa.Array:
    import pyarrow as pa

    return _struct(
        id=_texts([t.id for t in trajectories]),
        problem=pa.array([at[id(t.problem)] for t in trajectories], pa.int32()),
        contexts=_lists([np.array([at[id(c)] for c in t.contexts], np.int32) for t in trajectories], np.int32),
        player=_texts([t.player for t in trajectories]),
        completion=_texts([t.completion for t in trajectories]),
        reward=_outcomes([t.reward for t in trajectories]),
        components=_nested([list(t.components.items()) for t in trajectories], _components),
        ended=_texts([t.ended.value for t in trajectories]),
        advantages=_lists([t.advantages for t in trajectories], np.float64),
        returns=_lists([t.returns for t in trajectories], np.float64),
        source=_texts([t.source for t in trajectories]),
        trained=_flags(t.trained for t in trajectories),
        weight=pa.array([float(t.weight) for t in trajectories], pa.float64()),
        links=_json(t.links for t in trajectories),
    )


def _components(components: list[tuple[str, Outcome]]) -> pa.Array:
    return _struct(name=_texts([name for name, _ in components]), outcome=_outcomes([outcome for _, outcome in components]))


def _groups(groups: Sequence[Group], at: Mapping[int, int]) -> pa.Array:
    return _struct(
        key=_texts([g.key for g in groups]),
        trajectories=_lists([np.array([at[id(t)] for t in g.trajectories], np.int32) for g in groups], np.int32),
        pool=_nested([g.pool for g in groups], _outcomes),
    )


# reading


def _frozen(value: Any) -> Any:
    return Frozen(value) if isinstance(value, dict) else value


def _fields(structs: pa.Array, *names: str) -> Iterable[tuple[Any, ...]]:
    """Returns the values of the named fields, row by row, as Python values."""
    return zip(*(structs.field(name).to_pylist() for name in names), strict=True)


def _arrays(lists: pa.Array) -> list[np.ndarray | None]:
    """Returns one read-only array per row, with None for null."""
    values = lists.values.to_numpy(zero_copy_only=False)
    values.flags.writeable = False
    offsets = lists.offsets.to_numpy().tolist()
    valid = lists.is_valid().to_pylist()
    return [values[start:stop] if ok else None for start, stop, ok in zip(offsets[:-1], offsets[1:], valid, strict=True)]


def _judged(stored: Mapping[str, Any]) -> Outcome:
    if stored["reason"] is not None:
        return Failed.read(stored["reason"])
    return NOT_APPLICABLE if stored["value"] is None else stored["value"]


def _read_problems(structs: pa.Array, take: Take) -> list[Problem]:
    rows = _fields(structs, "id", "task", "messages", "text", "answer", "meta", "plain")
    return [
        Problem(key, task, tuple(restored(_frozen(m), take) for m in json.loads(messages)), text, json.loads(answer), Frozen(json.loads(meta)), plain)
        for key, task, messages, text, answer, meta, plain in rows
    ]


def _read_contexts(structs: pa.Array, seen: Sequence[str | None] | None, take: Take) -> list[Context]:
    arrays = [_arrays(structs.field(name)) for name in ("tokens", "chosen", "logprobs", "versions")]
    rest = _fields(structs, "temperature", "parent", "at", "rewards", "ended", "streams")
    contexts: list[Context] = []
    shows = seen or [None] * len(structs)
    for tokens, chosen, logprobs, versions, (temperature, parent, at, rewards, ended, streams), told in zip(*arrays, rest, shows, strict=True):
        contexts.append(
            Context(
                tokens=tokens,
                chosen=chosen,
                logprobs=logprobs,
                versions=versions,
                temperature=temperature,
                rewards=tuple((r["action"], r["component"], r["value"]) for r in rewards),
                streams=Frozen({s["name"]: np.frombuffer(s["data"], s["dtype"]).reshape(s["shape"]) for s in streams}),
                parent=None if parent is None else (contexts[parent], at),
                ended=Ended(ended),
                seen=seen_from(json.loads(told), take) if told else (),
            )
        )
    return contexts


def _read_trajectories(structs: pa.Array, problems: Sequence[Problem], contexts: Sequence[Context]) -> list[Trajectory]:
    names = ("id", "problem", "contexts", "player", "completion", "reward", "components", "ended", "source", "trained", "weight", "links")
    arrays = [_arrays(structs.field(name)) for name in ("advantages", "returns")]
    return [
        Trajectory(
            id=key,
            problem=problems[problem],
            contexts=tuple(contexts[row] for row in rows),
            player=player,
            completion=completion,
            reward=None if reward is None else _judged(reward),
            components=Frozen({c["name"]: _judged(c["outcome"]) for c in components}),
            ended=Ended(ended),
            advantages=advantages,
            returns=returns,
            source=source,
            trained=trained,
            weight=weight,
            links=Frozen(json.loads(links)),
        )
        for advantages, returns, fields in zip(*arrays, _fields(structs, *names), strict=True)
        for key, problem, rows, player, completion, reward, components, ended, source, trained, weight, links in [fields]
    ]


def _read_groups(structs: pa.Array, trajectories: Sequence[Trajectory]) -> list[Group]:
    return [
        Group(key, tuple(trajectories[row] for row in rows), tuple(_judged(o) for o in pool))
        for key, rows, pool in _fields(structs, "key", "trajectories", "pool")
    ]
