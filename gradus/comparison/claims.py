"""The claims of all recipes with their stored results. Reads only the index and JSON files; imports no recipe.

The results of a recipe are in `gradus/papers/<family>/measured/<key>.json`: a list with one record per measured claim.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gradus.lab.atomic_files import write
from gradus.recipe import index
from gradus.recipe.claim import Claim, reached
from gradus.types import UserError, unknown

STALE = "stale measurement: the claim has changed"
UNMEASURED = "not measured"
VERDICTS = ("seen", "not seen", "opposite")


class Known(NamedTuple):
    """A claim of a recipe, and its stored result.

    `result`: None if the claim was never measured. If the claim's text has changed since the measurement, the result has "stale": true.
    """

    key: str
    claim: Claim
    result: dict[str, Any] | None


def known(keys: Sequence[str] = (), family: str | None = None) -> list[Known]:
    """The claims of the recipes `keys` (empty: all recipes) in a family (None: all families), in the order of keys.

    KEY:2 is only the second claim of a recipe. Raises UserError if the recipe or the family is unknown, or if the recipe has no such claim.
    """
    rows = {row["key"]: row for row in index.read()["recipes"]}
    families = sorted({row["family"] for row in rows.values()})
    if family is not None and family not in families:
        raise unknown("family", family, families, "Give it with --family")
    asked = [_asked(word, rows) for word in keys] or [(key, None) for key, row in rows.items() if row.get("claims")]
    found = []
    for key, number in asked:
        if family in (None, rows[key]["family"]):
            found += of_recipe(rows[key]) if number is None else of_recipe(rows[key])[number - 1 : number]
    return found


def _asked(word: str, rows: Mapping[str, Mapping[str, Any]]) -> tuple[str, int | None]:
    """The recipe in a word, and the number of the claim in the word (None: all claims)."""
    key, colon, number = word.partition(":")
    if key not in rows:
        raise unknown("recipe", key, rows, "List those with claims: gradus claims")
    count = len(rows[key].get("claims", ()))
    if not count:
        raise UserError(f"{key} has no claim; list the recipes with claims: gradus claims")
    if colon and not (number.isdecimal() and 1 <= int(number) <= count):
        raise UserError(f"{word}: {key} has {count} claim{'s' * (count != 1)}; give {key}:1{f' to {key}:{count}' if count > 1 else ''}, or {key} for all")
    return key, int(number) if colon else None


def of_recipe(row: Mapping[str, Any]) -> list[Known]:
    """The claims of a row of the index.

    If the claim of a result no longer exists, the result becomes the stale result of the first claim that has no result.
    """
    claims = [Claim.read(stored) for stored in row.get("claims", ())]
    stored = {result["claim"]: result for result in results_of(file_of(row["family"], row["key"]))}
    left = [result for digest, result in stored.items() if digest not in {claim.digest for claim in claims}]
    found = []
    for claim in claims:
        result = stored.get(claim.digest) or ({**left.pop(0), "stale": True} if left else None)
        found.append(Known(row["key"], claim, result))
    return found


def file_of(family: str, key: str) -> Path:
    """The file of a recipe's results."""
    return index.FOLDERS["recipes"] / family / "measured" / f"{key}.json"


def results_of(path: Path) -> list[dict[str, Any]]:
    """The results of a file; [] if the file does not exist. Raises UserError for a broken file."""
    if not path.is_file():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, list) and all(result["verdict"] in VERDICTS and result["claim"] for result in found):
            return found
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError(f"{path} does not contain a list of claim results; restore the old file, or delete the file and measure again")


def keep(key: str, claim: Claim, measured: Mapping[str, Any], why: str | None = None) -> Path:
    """Stores the result of a claim in place of its older result, and returns the file. Results that belong to no claim are deleted.

    `why`: one sentence. None: if the older result has the same verdict, its sentence stays; otherwise there is no sentence.
    """
    row = next(row for row in index.read()["recipes"] if row["key"] == key)
    path, records = file_of(row["family"], key), []
    for other in of_recipe(row):
        if other.claim.digest != claim.digest:
            records += [] if other.result is None else [{name: value for name, value in other.result.items() if name != "stale"}]
            continue
        old = other.result or {}
        said = why if why is not None else old.get("why", "") if old.get("verdict") == measured["verdict"] else ""
        records.append({"claim": claim.digest, "says": claim.says, **measured, "why": said})
    path.parent.mkdir(exist_ok=True)
    write(path, (json.dumps(records, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def word_of(key: str, claim: Claim, every: Sequence[Known] = ()) -> str:
    """The word that names a claim on the command line: its recipe's key, or KEY:2 if the recipe has several claims.

    `every`: all claims, if the caller has read them already.
    """
    digests = [of.claim.digest for of in every or known([key]) if of.key == key]
    return key if len(digests) == 1 else f"{key}:{digests.index(claim.digest) + 1}"


def standing(of: Known) -> str:
    """The state of a claim: seen, not seen, opposite, not measured, or a stale measurement (older than the claim's text)."""
    if of.result is None:
        return UNMEASURED
    return STALE if of.result.get("stale") else str(of.result["verdict"])


def figure(of: Known) -> str:
    """The figure of a claim with its 95 % interval, such as "+0.031 [0.012, 0.050]"; "" without a figure."""
    if of.result is None or of.result.get("stale") or of.result.get("figure") is None:
        return ""
    sign = "+" if of.claim.bound == "better_by" else ""
    low, high = of.result.get("interval") or (None, None)
    return f"{of.result['figure']:{sign}.3g}" + ("" if low is None else f" [{low:.3g}, {high:.3g}]")


def as_json(found: Sequence[Known]) -> list[dict[str, Any]]:
    """The claims as plain values: key, the terms of the claim, its bound as text, its standing, and its stored result."""
    return [
        {"key": of.key, "claim": of.claim.stored(), "asked": reached(of.claim), "standing": standing(of), "result": of.result} for of in found
    ]
