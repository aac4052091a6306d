"""Splits a table into training rows and held-out rows, and gives an account of every row."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.tasks.data.files import CHUNK, Row, Table
from gradus.tasks.data.rows import Account, Checked, hold_out
from gradus.tasks.data.split_rule import rule_of_splits
from gradus.types import UserError, unknown

REPEATS = ("drop", "keep")


@dataclass(frozen=True, eq=False)
class Split:
    """The indices of a task's training rows and held-out rows, each in the order of its table, and the accounts of its tables."""

    training: np.ndarray
    held_out: np.ndarray
    accounts: tuple[Account, ...]
    about: str


def by_content(table: Table, checked: Checked, path: str, repeats: str = "drop", share: float | None = None) -> Split:
    """Holds out a share of the prompts of a table, with all their rows. Rows that equal an earlier row in every column are left out.

    `share`: in (0, 1]; None: a tenth, but at most 256 prompts. If `repeats` is "keep", equal training rows stay.
    Raises UserError if all rows have the same prompt, unless `share` is 1.
    """
    training, held = hold_out(checked.hashes) if share is None else hold_out(checked.hashes, share, len(checked.hashes))
    prompts = len(np.unique(checked.hashes[held]))
    if len(training) == 0 and share != 1:
        every = f"has only one prompt, in {len(held)} rows" if len(held) > 1 else "has only one prompt"
        raise UserError(f"{path} {every}; give at least two prompts, or give separate held-out problems with --task.held_out FILE")
    equal = _equal(table, checked)
    kept = held[~equal[held]]
    dropped = "equal to an earlier held-out row"
    if rule_of_splits.get() == 1:
        repeats, dropped = "keep", "with the prompt of an earlier held-out row"
        kept = held[np.sort(np.unique(checked.hashes[held], return_index=True)[1])]
    trained, parts = _trained(training, equal, repeats)
    of_prompts = f" ({prompts:,} prompt{'s' * (prompts != 1)})" if prompts < len(kept) else ""
    parts += [(len(kept), f"held out{of_prompts}"), *_left_out(training, trained), (len(held) - len(kept), dropped)]
    account = _account(table, checked, parts)
    return Split(checked.rows[trained], checked.rows[kept], (account,), f"{prompts} prompts held out by content")


def beside(table: Table, checked: Checked, other_table: Table, other: Checked, path: str, held_out: str, repeats: str = "drop") -> Split:
    """Removes the rows with a held-out prompt from the training rows. `other`: the held-out rows, which come from a separate table.

    Rows that equal an earlier row of their table in every column are left out, as in `by_content`. Raises UserError if no row is left to train on.
    """
    known = np.isin(checked.hashes, other.hashes)
    training = np.flatnonzero(~known)
    if len(training) == 0:
        raise UserError(f"every prompt of {path} is also in {held_out}; give held-out problems with other prompts")
    first_rule = rule_of_splits.get() == 1
    trained, parts = _trained(training, _equal(table, checked), "keep" if first_rule else repeats)
    parts += [*_left_out(training, trained), (int(known.sum()), f"with a prompt of {held_out}")]
    again = np.zeros(len(other.rows), bool) if first_rule else _equal(other_table, other)
    held = [(int((~again).sum()), "held out"), (int(again.sum()), "equal to an earlier row")]
    about = f"{int((~again).sum())} held out in {held_out}" + (
        f"; {known.sum()} rows left out because they are held out too" if known.any() else ""
    )
    accounts = (_account(table, checked, parts), _account(other_table, other, held))
    return Split(checked.rows[trained], other.rows[~again], accounts, about)


def _trained(training: np.ndarray, equal: np.ndarray, repeats: str) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Returns the rows to train on, and the part of the account that describes them. Raises UserError for an unknown value of `repeats`."""
    if repeats not in REPEATS:
        raise unknown("value", repeats, REPEATS, "For --task.repeats")
    again = equal[training]
    if repeats == "drop":
        return training[~again], [(int((~again).sum()), "to train on")]
    several = f" ({again.sum():,} of them equal to an earlier row, --task.repeats drop)" if again.any() else ""
    return training, [(len(training), f"to train on{several}")]


def _left_out(training: np.ndarray, trained: np.ndarray) -> list[tuple[int, str]]:
    return [(len(training) - len(trained), "equal to an earlier row (--task.repeats keep)")]


def _account(table: Table, checked: Checked, parts: list[tuple[int, str]]) -> Account:
    bad = len(checked.bad)
    parts = [*parts, (bad, "bad"), (table.empty, "empty")]
    rows = len(table) + len(table.lost) + table.empty
    name = table.where(0).rpartition(", ")[0] if len(table) else str(checked.bad[0].file)
    form = getattr(table, "format", None)
    name = name if form is None else f"{name} in the format {form.name}"
    return Account(name, rows, tuple((count, where) for count, where in parts if count), tuple(getattr(table, "unread", ())))


def _equal(table: Table, checked: Checked) -> np.ndarray:
    """Returns, for each valid row, whether it equals an earlier row in every column (bool). Only rows with a repeated prompt are read again."""
    _, inverse, counts = np.unique(checked.hashes, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[inverse] > 1)
    equal, seen = np.zeros(len(checked.rows), bool), set()
    for start in range(0, len(several), CHUNK):
        some = several[start : start + CHUNK]
        for at, row in zip(some, table.rows([int(n) for n in checked.rows[some]]), strict=True):
            content = _content(row)
            equal[at] = content in seen
            seen.add(content)
    return equal


def _content(row: Row) -> bytes:
    """Computes a 128-bit hash of a row's columns and values. A null value counts as a missing column."""
    text = json.dumps({name: value for name, value in row.items() if value is not None}, sort_keys=True, default=_comparable)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _comparable(value: Any) -> str:
    """Returns a text that is equal for equal values. The text of `repr` can differ for equal pictures of the package `datasets`."""
    if hasattr(value, "tobytes") and hasattr(value, "mode"):
        return f"{value.mode} {value.size} {hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()}"
    return repr(value)
