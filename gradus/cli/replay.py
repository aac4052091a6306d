"""`gradus replay`: repeats a stored run from its start, and compares metrics and weights."""

from __future__ import annotations

import argparse


def run(options: argparse.Namespace) -> int:
    """Repeats the run and prints the result. Returns 1 if a step differs."""
    from pathlib import Path

    from gradus.api import plan_of
    from gradus.comparison.replay import replay
    from gradus.lab.folder import RunFolder, refuse_taken
    from gradus.lab.live import Live, title_of
    from gradus.rewards.verified import Verified

    target = options.run or f"{options.folder.rstrip('/')}-again"
    refuse_taken(Path(target))
    planned = plan_of(RunFolder.open(options.folder), trust=options.trust)
    view = Live(title_of(planned.recipe.key, str(planned.task)), verified=isinstance(planned.recipe.reward, Verified))
    found = replay(options.folder, target, view=view, trust=options.trust)
    if found.differs is None:
        print(f"all {found.steps} steps are equal: metrics and saved weights have the same bytes; the repeated run: {found.folder}")
        return 0
    print(f"step {found.differs} differs; the repeated run: {found.folder}. A run differs if the machine, the device, a package or a file has changed")
    return 1
