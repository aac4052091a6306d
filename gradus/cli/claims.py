"""`gradus claims`: the claims of papers about their methods, and the values measured here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from gradus.comparison.claims import Known, as_json, figure, keep, known, standing, word_of
from gradus.recipe.claim import reached
from gradus.runtime.tables import table
from gradus.runtime.terminal import style_of
from gradus.types import UserError


def run(options: argparse.Namespace) -> int:
    """Measures claims if asked, then prints them. Returns 1 if a claim could not be measured."""
    found = known(options.keys, options.family)
    if options.why is not None and (len(found) != 1 or not options.keys):
        raise UserError(f"--why explains exactly one claim; name this claim, for example KEY or KEY:2 (this command names {len(found)})")
    for name in ("fresh", "parallel"):
        if getattr(options, name) and not options.run:
            raise UserError(f"--{name} has an effect only with --run; add --run, or leave out --{name}")
    failed = [sentence for of in found if options.run and (sentence := _measured(of, options, chosen=bool(options.keys)))]
    if options.why is not None and not options.run:
        _explained(found[0], options.why)
    found = known(options.keys, options.family)
    print(json.dumps(as_json(found), indent=1) if options.json else told(found))
    for sentence in failed:
        print(f"gradus: {sentence}", file=sys.stderr)
    return int(bool(failed))


def _measured(of: Known, options: argparse.Namespace, *, chosen: bool) -> str | None:
    """Measures a claim and stores the result. Returns a sentence if this failed. A claim with its own measuring program is left out unless the user named this
    claim.
    """
    from gradus.comparison.claim_runs import refuse_script, run_claim, terms
    from gradus.comparison.progress import Display

    if of.claim.script is not None and not chosen:
        return None
    try:
        refuse_script(of)
        experiment = terms(of, lambda sentence: print(sentence, file=sys.stderr))
        print(f"{of.key}: {of.claim.says}", file=sys.stderr, flush=True)
        with Display(len(experiment.arms) * len(experiment.seeds)) as display:
            run_claim(of, fresh=options.fresh, processes=options.parallel, why=options.why, shown=display)
    except UserError as error:
        if len(options.keys) == 1:
            raise
        return str(error)
    return None


def _explained(of: Known, why: str) -> None:
    """Stores the sentence that explains the result of a claim."""
    if of.result is None or of.result.get("stale"):
        raise UserError(
            f"{of.key}: {of.claim.named} has no result, or the claim has changed after its measurement; measure the claim with --run, and "
            "then explain the result"
        )
    measured = {name: value for name, value in of.result.items() if name not in ("claim", "says", "why")}
    keep(of.key, of.claim, measured, why)


def told(found: Sequence[Known]) -> str:
    """The claims as a table, and the number of claims per verdict."""
    every = known()
    rows = [(word_of(of.key, of.claim, every), reached(of.claim), figure(of) or "-", standing(of), _sentence(of)) for of in found]
    counts: dict[str, int] = {}
    for of in found:
        counts[standing(of)] = counts.get(standing(of), 0) + 1
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    listed = table(rows, ("recipe", "asked", "figure [95 %]", "verdict", "claim"), {3: style_of})
    return f"{listed}\n\n{len(found)} claim{'s' * (len(found) != 1)}: {summary or 'none'}"


def _sentence(of: Known) -> str:
    why = (of.result or {}).get("why")
    return f"{of.claim.says} Why: {why}" if why and not (of.result or {}).get("stale") else of.claim.says
