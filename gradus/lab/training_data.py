"""Data sets from the answers of a run: right answers for imitation, pairs of answers for preference training.

TRL and Gradus can train on these columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab.atomic_files import PARTIAL
from gradus.types import Ended, Group, Message, Problem, Trajectory, UserError
from gradus.types.media import Media
from gradus.types.png import data_uri

if TYPE_CHECKING:
    import pyarrow as pa

Steps = Iterable[tuple[int, Sequence[Group]]]
Row = dict[str, Any]
FORMS = ("model", "classifier", "card", "sft", "preference", "rollouts")  # the forms in which data can be exported


@dataclass
class Judged:
    """One distinct answer to a prompt, with its rewards. `right` is True if every verdict was right."""

    rewards: list[float] = field(default_factory=list)
    right: bool = True

    @property
    def reward(self) -> float:
        """Returns the mean of the rewards, because a judge may give an answer different rewards."""
        return sum(self.rewards) / len(self.rewards)


@dataclass(frozen=True)
class Asked:
    """A prompt with its distinct answers, in the order of their first appearance. `prompt`: messages, or raw text."""

    prompt: tuple[Message, ...] | str
    answers: dict[str, Judged] = field(default_factory=dict)


def collect(steps: Steps, system: str | None = None, player: str = "policy", *, cut: bool = False) -> tuple[list[Asked], list[Judged]]:
    """Returns every prompt of the run with its distinct answers, and the answers that were excluded because a limit cut them off.

    Equal prompts are merged. Prompts are in the order of their first appearance. Answers without a reward and empty answers are also excluded.
    Answers of several turns or contexts are also excluded, because the player then saw more than the prompt and the answer. Raises UserError if no
    answer remains.

    Args: system: the task's system message; cut: whether to include the answers that a limit cut off.
    """
    found: dict[str, Asked] = {}
    left_out: list[Judged] = []
    seen = 0
    for _, groups in steps:
        for t in (t for g in groups for t in g.trajectories if t.player == player and t.failed is None):
            seen += 1
            if not t.completion.strip() or not _one_answer(t):
                continue
            if not cut and t.ended in (Ended.LENGTH, Ended.CONTEXT, Ended.TRUNCATED):
                left_out.append(Judged([t.value], t.right))
                continue
            prompt = _prompt(t.problem, system)
            asked = found.setdefault(json.dumps(prompt, default=str), Asked(prompt))
            judged = asked.answers.setdefault(t.completion, Judged())
            judged.rewards.append(t.value)
            judged.right = judged.right and t.right
    if not found:
        taken = f", or include the {len(left_out)} answers that a limit cut, with --include-cut" if left_out else ""
        raise UserError(
            f"none of the {seen} judged answers of the run is a complete answer of one turn, so there are no training data; export the rollouts instead{taken}"
        )
    return list(found.values()), left_out


def told_of_cut(left_out: Sequence[Judged], form: str, at_least: float | None = None) -> str:
    """Returns a sentence about the answers that are good enough for the form of the data, but are excluded because a limit cut them off.

    Returns '' if there are no such answers.
    """
    good = [j for j in left_out if form != "sft" or (j.right if at_least is None else j.reward >= at_least)]
    if not good:
        return ""
    kind = "" if form != "sft" else " right" if at_least is None else f" with a reward of {at_least:g} or more"
    some = f"{len(good):,}{kind if kind == ' right' else ''} answer{'s' if len(good) > 1 else ''}{kind if kind != ' right' else ''}"
    return f"left out: {some} that a limit on length or turns cut; --include-cut exports them too"


def demonstrations(asked: Sequence[Asked], at_least: float | None = None) -> list[Row]:
    """Returns rows for imitation. For every prompt, the rows contain the distinct right answers with the highest reward.

    `at_least`: the lowest reward that counts as right; None: the verifier decides. A row is {"messages": prompt and answer}, or {"prompt", "completion"} for a
    raw text. Raises UserError if no answer is good enough.
    """
    rows: list[Row] = []
    for one in asked:
        good = {text: j.reward for text, j in one.answers.items() if (j.right if at_least is None else j.reward >= at_least)}
        rows += [_shown(one.prompt, text) for text, reward in good.items() if reward == max(good.values())]
    if not rows:
        best = max(j.reward for one in asked for j in one.answers.values())
        wanted = "is right" if at_least is None else f"has a reward of at least {at_least:g}"
        raise UserError(f"no answer of the run {wanted} (the highest reward is {best:g}); set a lower limit with --at-least")
    return rows


def preferences(asked: Sequence[Asked], at_least: float | None = None) -> list[Row]:
    """Returns rows for preference training.

    For each prompt, the best answer forms a pair with the worst answer, the second best with the second worst, and so on.

    The two rewards of a pair differ, and the higher reward is at least `at_least`. No answer is in two pairs. A row is {"prompt", "chosen", "rejected"}. Each
    value is a list of messages, or text if the prompt is a raw text. Raises UserError if no prompt has two answers with different rewards.
    """
    rows: list[Row] = []
    for one in asked:
        order = sorted(one.answers, key=lambda text: -one.answers[text].reward)  # equal rewards keep the order of their appearance
        for better, worse in zip(order[: len(order) // 2], reversed(order), strict=False):
            high, low = one.answers[better].reward, one.answers[worse].reward
            if high > low and (at_least is None or high >= at_least):
                rows.append({"prompt": _plain(one.prompt), "chosen": _turn(one.prompt, better), "rejected": _turn(one.prompt, worse)})
    if not rows:
        bound, lower = ("", "") if at_least is None else (f", of which the higher one is at least {at_least:g}", ", or lower --at-least")
        raise UserError(
            f"there are no pairs, because no prompt of the run has two answers with different rewards{bound}; train longer{lower}"
        )
    return rows


def write_rows(target: Path, rows: Sequence[Row]) -> None:
    """Writes JSON lines or Parquet, atomically. The ending of the file's name decides the format. Raises UserError if the file exists or cannot be written."""
    import pyarrow as pa

    if len({tuple(row) for row in rows}) > 1 or len({type(next(iter(row.values()))) for row in rows}) > 1:
        raise UserError("some prompts of the run are messages and some are raw text, but one table cannot contain both; export the rollouts instead")
    with_suffix(target, (".jsonl", ".parquet"))
    if target.suffix == ".parquet":
        write_tables(target, [pa.Table.from_pylist([_encodable(_in_parts(row) if _pictured(rows) else row) for row in rows])])
        return
    _put(target, lambda partial: partial.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"))


def _pictured(rows: Sequence[Row]) -> bool:
    """Whether a message in the rows consists of parts."""
    return any(isinstance(m["content"], list) for row in rows for value in row.values() if isinstance(value, list) for m in value)


def _in_parts(row: Row) -> Row:
    """Returns the row with the content of every message as parts, because all values of a column must have one form."""
    return {
        name: [{**m, "content": m["content"] if isinstance(m["content"], list) else [{"type": "text", "text": m["content"]}]} for m in value]
        if isinstance(value, list)
        else value
        for name, value in row.items()
    }


def _encodable(value: Any) -> Any:
    """Returns the value in a form that UTF-8 can encode. A lone surrogate becomes a question mark."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value


def write_tables(target: Path, tables: Iterable[pa.Table]) -> None:
    """Writes tables of one schema as Parquet, with one row group per table, atomically. Raises UserError if the file exists or cannot be written."""

    def write(partial: Path) -> None:
        import pyarrow.parquet as pq

        parts: Iterator[pa.Table] = iter(tables)
        first = next(parts)
        with pq.ParquetWriter(partial, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            for part in parts:
                writer.write_table(part)

    with_suffix(target, (".parquet",))
    _put(target, write)


def with_suffix(target: Path, suffixes: tuple[str, ...]) -> None:
    """Raises UserError if the name of the file has another ending, or if the file exists."""
    if target.suffix not in suffixes:
        raise UserError(f"{target} does not end in {' or '.join(suffixes)}; choose a name with this ending")
    if target.exists():
        raise UserError(f"{target} exists already; name another file, because an export does not overwrite files")


def _put(target: Path, write: Callable[[Path], Any]) -> None:
    partial = target.with_name(PARTIAL + target.name)
    try:
        write(partial)
        partial.rename(target)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}; name another file") from error
    finally:
        partial.unlink(missing_ok=True)


def _one_answer(trajectory: Trajectory) -> bool:
    """Whether the trajectory is one context: a prompt, then chosen tokens."""
    if len(trajectory.contexts) != 1 or "turn" in trajectory.contexts[0].streams:
        return False
    (context,) = trajectory.contexts
    parent = context.parent[0] if context.parent is not None else None
    return bool(context.chosen.all()) and context.actions > 0 and parent is not None and parent.actions == 0 and parent.parent is None


def _prompt(problem: Problem, system: str | None) -> tuple[Message, ...] | str:
    if problem.text is not None:
        return problem.text
    head = ({"role": "system", "content": system},) if system else ()
    return (*head, *map(_as_file, problem.messages))


def _as_file(message: Message) -> Message:
    """Returns a message in the form that files of problems have. Pictures are data URIs."""
    content = message["content"]
    if isinstance(content, str):
        return {**message}
    parts = [{"type": "image", "image": data_uri(p["media"])} if isinstance(p.get("media"), Media) else dict(p) for p in content]
    return {**message, "content": parts}


def _plain(prompt: tuple[Message, ...] | str) -> str | list[Mapping[str, Any]]:
    return prompt if isinstance(prompt, str) else [dict(m) for m in prompt]


def _turn(prompt: tuple[Message, ...] | str, text: str) -> str | list[Mapping[str, Any]]:
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]


def _shown(prompt: tuple[Message, ...] | str, text: str) -> Row:
    if isinstance(prompt, str):
        return {"prompt": prompt, "completion": text}
    return {"messages": [*(dict(m) for m in prompt), {"role": "assistant", "content": text}]}
