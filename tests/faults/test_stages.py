"""A run through stages, killed within and between them, while rows are made and problems are screened: resumed, it comes out the same."""

from __future__ import annotations

import signal
from pathlib import Path

from benchmarks.forked import Forked
from tests.faults import all_stages
from tests.faults.training import same, whole_up_to

SMALL = ["--prompts", "2", "--group", "4", "--save_every", "2", "--eval_every", "3", "--study.problems", "2", "--learning_rate", "1e-3"]
MOMENTS = [
    ("gradus.players.learner:Learner.move", "1", "after"),  # within the first stage
    ("gradus.training.stages:leave", "0", "before"),  # evaluated, not saved
    ("gradus.training.run:Run.end_stage", "0", "after"),  # the line of the end is there, the next stage is not
    ("gradus.training.stages:enter", "0", "after"),
    ("gradus.players.learner:Learner.move", "2", "after"),  # within the second stage
    ("gradus.lab.made:store", "0", "before"),  # while rows are made
    ("gradus.lab.made:write", "0", "after"),  # the file is there, nothing says so
    ("gradus.lab.folder:RunFolder.append_fact", "0", "after"),  # the fact is there, the provenance says nothing
    ("gradus.training.stages:place", "0", "before"),
    ("gradus.training.stages:merged", "0", "after"),
    ("gradus.study.screen:rated", "0", "before"),  # problems are measured, none is kept
    ("gradus.lab.made:store", "0", "after"),  # screened and stored
    ("gradus.training.stages:leave", "0", "after"),  # the end of a plateau is saved
    ("gradus.lab.folder:RunFolder.point", "0", "before"),
]


def words(run: Path) -> list[str]:
    return ["train", f"{all_stages.__file__}:all_stages", "--run", str(run), *SMALL]


def test_killed_within_and_between_stages_it_comes_out_the_same(forked: Forked, tmp_path: Path) -> None:
    whole, run, log = tmp_path / "whole", tmp_path / "run", tmp_path / "log"
    assert forked.start(words(whole), log).wait() == 0, log.read_text()
    struck = []
    for where, call, after in MOMENTS:
        going = ["resume", str(run)] if run.exists() else words(run)
        code = forked.start([where, call, after, *going], log, "tests.faults.training:killed_at").wait()
        assert code in (0, -signal.SIGKILL), log.read_text()
        struck.append(code == -signal.SIGKILL)
        whole_up_to(run)
    assert all(struck), [moment for moment, hit in zip(MOMENTS, struck, strict=True) if not hit]
    assert forked.start(["resume", str(run)], log).wait() == 0, log.read_text()
    assert same(run, whole) == []
    assert {path.name for path in (run / "stages").iterdir()} == {"warm", "rl", "again", "soup", "hard"}
