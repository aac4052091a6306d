"""`gradus report`: the page of a run, or one page for several runs."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

LONGEST_NAME = 80  # characters of a page that is named after its runs


def run(options: argparse.Namespace) -> int:
    """Writes the page and prints its path."""
    from gradus.lab.report import write_report
    from gradus.lab.runs_page import write_runs_page
    from gradus.types import UserError

    if len(options.folders) == 1:
        if options.out is not None or options.by != "steps":
            given = "--out" if options.out is not None else "--by"
            raise UserError(
                f"{given} is only for the page of several runs; leave {given} out, because the page of one run is always report.html in the "
                "folder of the run"
            )
        print(write_report(options.folders[0]))
        return 0
    print(write_runs_page(options.folders, options.out or page_of(options.folders), options.by))
    return 0


def page_of(folders: list[str]) -> str:
    """The default file of a page about several runs, runs/report-NAMES.html.

    >>> page_of(["runs/a", "runs/b/"])
    'runs/report-a-b.html'
    """
    name = re.sub(r"[^\w.+-]+", "-", "-".join(Path(folder).name for folder in folders)).strip("-")
    return f"runs/report-{name[:LONGEST_NAME]}.html"
