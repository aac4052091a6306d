"""One run killed at one chosen moment after another: in rollout, reward, update, evaluation, while it is written down, in a save, in a resume."""

from __future__ import annotations

import signal
from pathlib import Path

from benchmarks.forked import Forked
from tests.faults.training import same, whole_up_to, words

MOMENTS = [
    ("gradus.policies.lm:LanguageModel.act", "4", "after"),  # answers are there that nobody has judged
    ("gradus.rewards.verified:Verified.score", "3", "before"),
    ("gradus.players.learner:Learner.move", "1", "after"),  # weights have moved, and nothing says so
    ("gradus.lab.rollouts:append", "1", "after"),  # rollouts are stored, the line of metrics is not
    ("gradus.lab.folder:RunFolder.append_metrics", "1", "after"),
    ("gradus.lab.rollouts:cut_back", "0", "after"),  # rollouts are cut back, metrics are not
    ("gradus.lab.folder:RunFolder.note_resumed", "0", "before"),
    ("gradus.lab.checkpoints:_fill", "0", "after"),  # all is written, but has no name
    ("gradus.lab.checkpoints:prune", "0", "before"),  # it has its name, and the old ones are there
    ("gradus.lab.folder:RunFolder.point", "0", "before"),
]


def test_killed_at_one_moment_after_another_it_comes_out_the_same(forked: Forked, tmp_path: Path) -> None:
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
