"""The lines of a running comparison that is not shown on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

from gradus.comparison.compare import Comparison
from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.job import Job
from gradus.comparison.progress import Display, score
from tests.comparison.test_table import result


def test_each_finished_run_has_a_line_with_its_score_and_what_is_left(tmp_path: Path) -> None:
    experiment = Experiment((Arm("grpo", "grpo"), Arm("rloo", "rloo")), seeds=(0,))
    made, out = Comparison(experiment, tmp_path), io.StringIO()
    jobs = made.jobs()
    with Display(2, out) as display:
        display(made, jobs[0], {"total": 10, "done": 5, "score": 0.2})
        display(made, jobs[0], {"message": "a rate by rule"})
        display(made, jobs[0], {"result": result([4, 0])})
        display(made, jobs[1], {"failed": "NaN"})
    first, second = out.getvalue().splitlines()
    assert first.startswith("grpo, seed 0: accuracy 0.500 (1 of 2 runs, about ")
    assert second.startswith("rloo, seed 0: failed: NaN (2 of 2 runs, done in ")


def test_the_score_is_that_of_the_measure() -> None:
    assert score("length", result([1])) == "length 5.000"
    assert score("auc", result([1])) == "accuracy 0.250"


def test_a_job_has_a_folder_of_its_own(tmp_path: Path) -> None:
    jobs: list[Job] = Comparison(Experiment((Arm("a", "grpo"), Arm("b", "grpo")), seeds=(0, 1)), tmp_path).jobs()
    assert len({job.folder for job in jobs}) == 4
    assert [job.seed for job in jobs] == [0, 0, 1, 1]
