"""`gradus compare`: several recipes on equal terms, as a table, a sentence and a page."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path


def run(options: argparse.Namespace) -> int:
    """Runs the comparison, or continues it, and prints its result."""
    from gradus.cli.parser import split_task
    from gradus.comparison.compare import compare
    from gradus.comparison.experiment import Experiment, arm_of, seeds_of
    from gradus.comparison.measures import Measure
    from gradus.comparison.page import NAME
    from gradus.comparison.progress import Display, told
    from gradus.training.budget import budget_of

    fields, task_options = split_task(options.fields)
    experiment = Experiment(
        arms=tuple(arm_of(word) for word in options.recipes),
        task=options.task,
        task_options=tuple(task_options.items()),
        model=options.model,
        profile=options.profile,
        fields=tuple(fields),
        seeds=seeds_of(options.seeds),
        budget=budget_of(options.budget),
        measure=options.measure,
        problems=options.problems,
        samples=options.samples or max(4, Measure(options.measure).samples),
        device=options.device,
    )
    folder = Path(options.run or f"runs/compare-{_name(options)}")
    with Display(len(experiment.arms) * len(experiment.seeds)) as display:
        made = compare(experiment, folder, processes=options.parallel, fresh=options.fresh, shown=display)
    if made.reused and not options.json:
        count, names = len(made.reused), ", ".join(sorted(set(made.reused)))
        print(f"{count} finished run{'s' * (count != 1)} reused ({names}); --fresh trains them anew\n", file=sys.stderr)
    document = made.document()
    print(json.dumps(document, indent=1) if options.json else f"{told(document)}\n\npage: {folder / NAME}")
    return int(any("failed" in run for runs in made.results.values() for run in runs.values()))


def _name(options: argparse.Namespace) -> str:
    words = [*options.recipes, Path(options.task).stem if options.task else "default"]
    return re.sub(r"[^\w.+-]+", "-", "-".join(words)).strip("-")[:80]
