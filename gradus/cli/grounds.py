"""`gradus grounds`: lists the proving grounds, describes one ground in full, and calibrates it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradus.cli.parser import split_task
from gradus.comparison.experiment import arm_of
from gradus.comparison.ground import Ground, ground_of, grounds
from gradus.runtime.tables import table
from gradus.runtime.terminal import paint, paragraph
from gradus.types.errors import UserError

WIDEST = 24  # characters of an arm's name in the list of grounds


def run(options: argparse.Namespace) -> int:
    """Lists the grounds, or calibrates one."""
    if options.calibrate is None:
        rows = [ground_of(name) for name in grounds()]
        print(json.dumps([_listed(ground) for ground in rows], indent=1) if options.json else _table(rows))
        return 0
    return _calibrate(ground_of(options.calibrate), options)


def _listed(ground: Ground) -> dict[str, Any]:
    from gradus.comparison.calibrate import stored

    pair = {name: getattr(ground.pair, name) for name in ("better", "worse", "measure", "why")}
    about = {name: getattr(ground, name) for name in ("name", "about", "task", "budget")}
    return {**about, "measures": list(ground.measures), "pair": pair, "calibration": stored(ground)}


def _table(rows: Sequence[Ground]) -> str:
    """A row for each ground: the pair of recipes that the ground separates, their difference, and the difficulty of the ground."""
    from gradus.comparison.calibrate import stored

    cells = []
    for ground in rows:
        pair, found = ground.pair, stored(ground)
        gap = "not measured" if found is None else _gap(found["pair"])
        names = " > ".join(name if len(name) <= WIDEST else f"{name.split()[0]} ..." for name in (arm_of(word).name for word in (pair.better, pair.worse)))
        cells.append((ground.name, f"{names} by {pair.measure}", gap, ground.about))
    return table(cells, ("ground", "separates", "by how much [99 %]", "difficulty"))


def _gap(pair: Mapping[str, Any]) -> str:
    """The difference of a pair with its interval. If the difference is large, the numbers have no decimals."""
    form = ".2f" if max(abs(pair["low"]), abs(pair["high"])) < 100 else ",.0f"
    return f"{pair['mean']:+{form}} [{pair['low']:+{form}}, {pair['high']:+{form}}]"


def _calibrate(ground: Ground, options: argparse.Namespace) -> int:
    from gradus.comparison.calibrate import calibrated, keep
    from gradus.comparison.compare import compare
    from gradus.comparison.progress import Display
    from gradus.comparison.terms import calibration

    experiment = calibration(ground, said=lambda text: print(text, file=sys.stderr, flush=True))
    folder = Path(options.run or f"runs/ground-{ground.name}")
    with Display(len(experiment.arms) * len(experiment.seeds)) as display:
        made = compare(experiment, folder, processes=options.parallel, shown=display)
    found = calibrated(ground, made)
    if options.write:
        keep(ground, found)
    print(json.dumps(found, indent=1) if options.json else told(ground, found))
    return int(not found["pair"]["separated"])


def on_ground(options: argparse.Namespace) -> None:
    """Fills in the terms that the command leaves out, from the named ground."""
    if options.ground is None:
        return
    from gradus.comparison.starts import terms_of

    if options.task is not None or split_task(options.fields)[1]:
        raise UserError(f"the ground {options.ground} has its own task; leave out --task and the task options, or leave out --ground")
    terms = terms_of(ground_of(options.ground), said=lambda text: print(text, file=sys.stderr, flush=True))
    given = {path for path, _ in options.fields}
    options.task = terms["task"]
    options.fields += [(path, text) for path, text in terms["fields"] if path not in given]
    options.fields += [(f"task.{name}", text) for name, text in terms["task_options"]]
    options.model = options.model or terms.get("model")
    options.reward = options.reward or (list(terms["reward"]) if "reward" in terms else None)
    if options.steps is None and options.budget is None:
        options.budget = str(terms["budget"])


def show(name: str) -> str:
    """A ground as text: its difficulty, its terms, the pair that it separates, and its calibration."""
    import importlib

    from gradus.comparison.calibrate import stored

    ground = ground_of(name)
    about = (importlib.import_module(f"gradus.grounds.{name}").__doc__ or "").strip()
    options = "".join(f" --task.{key} {value}" for key, value in ground.options.items())
    terms = {
        "task": f"{ground.task}{options}",
        "start": ground.start or "the built-in model",
        **({"judge": ground.judge} if ground.judge is not None else {}),
        "fields": " ".join(f"--{key} {value}" for key, value in ground.fields.items()) or "those of the recipe",
        "budget": ground.budget,
        "measures": ", ".join(ground.measures),
        **({"further tasks": "; ".join(ground.others)} if ground.others else {}),
        "examination": f"{ground.problems} held-out problems, {ground.samples} answers each",
        "separates": f"{ground.pair.better} from {ground.pair.worse} by {ground.pair.measure}: {ground.pair.why}",
    }
    width = max(map(len, terms)) + 2
    head = [] if about.startswith(f"{name}: ") else [f"{name}: {ground.about}"]
    paragraphs = [paragraph(text) for text in [*head, *about.split("\n\n")]]
    rows = [paragraph(str(value), " " * width, paint(key, "title") + " " * (width - len(key))) for key, value in terms.items()]
    found = stored(ground)
    measured = "calibration: not measured; measure it with: gradus grounds --calibrate " + name if found is None else told(ground, found)
    return "\n\n".join([*paragraphs, "\n".join(rows), measured])


def told(ground: Ground, found: Mapping[str, Any]) -> str:
    """A calibration as text: a row for each arm, and the sentence about the pair."""
    pair, shows = found["pair"], sorted({name for arm in found["arms"] for name in arm["shows"]})
    rows = [
        (
            arm["name"],
            *(f"{v:.3f}" for v in (arm["final"], arm["deviation"])),
            " ".join(f"{v:.3f}" for v in arm["seeds"]),
            *("-" if arm["shows"].get(name) is None else f"{arm['shows'][name]:.3f}" for name in shows),
            f"{arm['tokens']:,.0f}",
            f"{arm['seconds']:.0f} s",
        )
        for arm in found["arms"]
    ]
    start = "" if found["start"] is None else f"; held-out score before training: {found['start']:.3f}"
    arms = table(rows, ("arm", pair["measure"], "deviation", "each seed", *shows, "tokens", "time"))
    says = f"{pair['better']} - {pair['worse']}: {pair['mean']:+.3f} [{pair['low']:+.3f}, {pair['high']:+.3f}], the {pair['level']:.0%} interval; "
    says += "separated" if pair["separated"] else "not separated"
    old = ["note: the ground has changed since this measurement; measure again with: gradus grounds --calibrate " + ground.name] if found.get("stale") else []
    return "\n".join([paragraph(f"calibration over {len(found['arms'][0]['seeds'])} seeds{start}"), "", arms, "", *map(paragraph, [says, *old])])
