"""What goes wrong while a run trains: rewards that fail or hang, a full disk, a torn checkpoint, Ctrl-C, gradients that are not finite."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from gradus.cli.main import main
from gradus.lab import checkpoints
from gradus.lab.folder import RunFolder
from gradus.objectives.aggregation import SequenceMean
from gradus.papers.bases.grpo import grpo
from gradus.rewards.functions import LocalFunction
from gradus.testing.methods import toy_run, toy_trajectory, train_toy
from gradus.training.world import judged
from gradus.types import Failed, FailureKind, UserError
from gradus.types.parts import Judgement
from gradus.types.signals import LogProb
from gradus.types.tally import Tally
from gradus.updates.minibatches import Minibatches
from gradus.workers.pool import stop_workers
from tests.options import replaced
from tests.small_model import save_small_model

pytestmark = pytest.mark.alone

GOOD = "def score(completions, **kwargs):\n    return [float(len(str(c)) % 3) for c in completions]\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, problems and a reward function, and what an uninterrupted run of three steps makes of them."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("home")
    save_small_model(home / "model")
    (home / "problems.jsonl").write_text("".join(json.dumps({"prompt": f"say {i}", "answer": str(i)}) + "\n" for i in range(20)))
    (home / "good.py").write_text(GOOD)
    assert train(home, home / "whole", reward=home / "good.py") == 0
    return home


@pytest.fixture(autouse=True)
def _no_workers_are_left() -> Iterator[None]:
    yield
    stop_workers()


def words(home: Path, run: Path, reward: Path, *more: str) -> list[str]:
    fields = "--steps 3 --prompts 2 --group 4 --max_tokens 6 --save_every 1 --keep 9 --study.problems 2 --learning_rate 1e-2"
    given = ["--task", home / "problems.jsonl", "--model", home / "model", "--run", run, "--reward", f"{reward}:score"]
    return replaced(["train", "grpo", *map(str, given), *shlex.split(fields), *more])


def train(home: Path, run: Path, *more: str, reward: Path) -> int:
    return main(words(home, run, reward, *more))


def same(run: Path, other: Path) -> None:
    """Metrics, rollouts and every tensor of the last checkpoint are equal, byte for byte."""
    last = f"checkpoints/step-{max(checkpoints.steps(other)):06d}"
    names = ["metrics.jsonl", *(f"rollouts/{p.name}" for p in sorted((other / "rollouts").iterdir()))]
    for name in [*names, f"{last}/player-policy.safetensors", f"{last}/state.json", f"{last}/model/model.safetensors"]:
        assert (run / name).read_bytes() == (other / name).read_bytes(), name


def test_a_checkpoint_of_another_run_is_neither_believed_nor_deleted(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    assert train(home, other, "--seed", "1", reward=home / "good.py") == 0
    shutil.copytree(home / "whole", run)  # the links `best` and `final` become folders
    for name in ("step-000002", "step-000003"):
        shutil.rmtree(run / "checkpoints" / name)
    shutil.copytree(other / "checkpoints" / "step-000003", run / "checkpoints" / "step-000003")
    capsys.readouterr()
    assert main(["resume", str(run)]) == 0
    told = capsys.readouterr()
    assert "checkpoint step-000003 belongs to another run; continuing from step-000001" in told.out + told.err
    assert (run / "checkpoints" / "broken-step-000003").is_dir()
    assert (run / "final").is_symlink()
    same(run, home / "whole")


# rewards


def test_what_failed_is_counted_kept_and_never_trained_on(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reward = tmp_path / "reward.py"
    reward.write_text(
        "def score(completions, **kwargs):\n"
        "    marks = [1, 0, float('nan'), 2, 'good', 3, 3, None]\n"
        "    return marks if len(completions) == 8 else [0.0] * len(completions)\n"
    )
    batches = []
    update = Minibatches.update

    def seen(self: Minibatches, player: Any, batch: Any, *rest: Any) -> Any:
        batches.append(batch)
        return update(self, player, batch, *rest)

    monkeypatch.setattr(Minibatches, "update", seen)
    assert train(home, tmp_path / "run", "--steps", "1", reward=reward) == 0
    run = RunFolder.open(tmp_path / "run")
    row = run.metrics()[0]
    assert row["failed"] == 3
    assert row["reward"] == row["reward/score"] == pytest.approx(9 / 5)  # 1 + 0 + 2 + 3 + 3, of the five that have one
    stored = [t for _, group in run.rollouts([0]) for t in group.trajectories]
    assert len(stored) == 8
    assert {i: t.failed for i, t in enumerate(stored) if t.failed} == {
        2: "returned nan",
        4: "returned the text 'good' instead of a number",
        7: "no reward applied to this trajectory",
    }
    assert [t.advantages is None for t in stored] == [t.failed is not None for t in stored]
    # first group 1, 0, 2: mean 1, deviation sqrt(2/3); second group 3, 3: no difference
    assert [t.advantages[0] for t in stored if not t.failed] == pytest.approx([0, -(1.5**0.5), 1.5**0.5, 0, 0])
    (batch,) = batches
    assert [t.id for t in batch.trajectories] == [t.id for t in stored if not t.failed]
    assert bool(batch.advantages.isfinite().all())


def marks(*values: Any) -> LocalFunction:
    def marked(completions: list[Any], **kwargs: Any) -> list[Any]:
        return list(values)

    return LocalFunction(marked)


def test_failures_are_borne_up_to_the_share_that_is_allowed() -> None:
    half = grpo.but(reward=marks(*[1.0, float("nan")] * 4))
    run = train_toy(half, steps=1, prompts=2, group=4, max_failed=0.5)
    assert run.metrics[0]["failed"] == 4
    with pytest.raises(
        UserError, match=r"4 of 8 trajectories .* but the allowed share is 49%; the most common reason: returned nan. Fix the cause"
    ):
        train_toy(half, steps=1, prompts=2, group=4, max_failed=0.49)


def test_a_step_of_which_nothing_is_left_changes_nothing() -> None:
    start, run = (toy_run(grpo.but(reward=marks(*["no"] * 8)), steps=1, prompts=2, group=4, max_failed=1.0) for _ in range(2))
    from gradus.training.launch import go

    go(run)
    assert (run.metrics[0]["failed"], run.metrics[0]["reward"]) == (8, None)
    assert run.players["policy"].updates == 0
    assert torch.equal(run.players["policy"].policy.network.logits, start.players["policy"].policy.network.logits)


def test_a_policy_that_diverged_has_failed() -> None:
    whole = toy_trajectory([1, 2], logprobs=[-1.0, -2.0])
    broken = toy_trajectory([1, 2], logprobs=[-1.0, float("nan")])
    assert judged(whole, Judgement(1.0)).reward == 1.0
    assert "not finite" in (judged(broken, Judgement(1.0)).failed or "")


def test_a_reward_that_breaks_stops_the_run_which_goes_on_when_it_is_mended(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reward, run = tmp_path / "reward.py", tmp_path / "run"
    reward.write_text(
        GOOD.replace("    return", "    if kwargs['trainer_state'].global_step == 1:\n        raise OSError('no licence')\n    return")
    )
    assert train(home, run, reward=reward) == 2
    assert "8 of 8 trajectories of this step have no reward" in (said := capfd.readouterr().err)
    kept = f"each failure is in {run / 'quarantine.jsonl'}. Fix the cause, then continue with gradus resume RUN"
    assert f"raised OSError: no licence (reward.py, line 3); {kept}" in said
    assert [row["step"] for row in RunFolder.open(run).metrics()] == [0]
    reward.write_text(GOOD)
    stop_workers()
    assert main(["resume", str(run)]) == 0
    same(run, home / "whole")


def test_a_reward_that_hangs_is_killed(home: Path, tmp_path: Path) -> None:
    reward, run = tmp_path / "reward.py", tmp_path / "run"
    reward.write_text(
        "import os, pathlib, time\n\n"
        "def score(completions, trainer_state, **kwargs):\n"
        "    if trainer_state.global_step == 1:\n"
        f"        pathlib.Path({str(tmp_path / 'process')!r}).write_text(str(os.getpid()))\n"
        "        time.sleep(1000)\n"
        "    return [1.0] * len(completions)\n"
    )
    assert train(home, run, "--reward.timeout", "2", "--reward.retries", "0", "--max_failed", "1", reward=reward) == 0
    folder = RunFolder.open(run)
    assert [row.get("failed") for row in folder.metrics()] == [0, 8, 0, None]
    late = Failed("did not answer within 2 seconds, the limit that --reward.timeout sets", FailureKind.TIMEOUT)
    assert {t.reward for _, g in folder.rollouts([1]) for t in g.trajectories} == {late}
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "process").read_text()), 0)


# the disk


def full(*arguments: Any, **more: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "breaks",
    ["gradus.lab.checkpoints.sync", "gradus.lab.checkpoints.write", "gradus.lab.rollouts.write", "gradus.policies.lm.save_weights"],
)
def test_a_full_disk_leaves_the_last_checkpoint_whole(
    breaks: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"

    def fill_up(path: Path) -> None:
        monkeypatch.setattr(breaks, full)

    after_the_first(fill_up, monkeypatch)
    assert train(home, run, reward=home / "good.py") == 2
    said = capfd.readouterr().err
    assert said.startswith(f"gradus: no space left in {run} while writing ")
    assert said.endswith(f"free some space, then resume: gradus resume {run}\n")
    assert list(checkpoints.steps(run)) == [1]
    assert checkpoints.broken(run / "checkpoints" / "step-000001") is None
    monkeypatch.undo()
    assert main(["resume", str(run)]) == 0
    same(run, home / "whole")
    assert not list(run.rglob(".partial*"))


def test_a_disk_that_is_full_from_the_start(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("gradus.lab.folder.write", full)
        assert train(home, tmp_path / "run", reward=home / "good.py") == 2
    said = capfd.readouterr().err
    assert said == f"gradus: cannot make the run folder {tmp_path / 'run'}: No space left on device; name another folder with --run\n"
    assert not (tmp_path / "run").exists()


def after_the_first(then: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls `then` with the path of the first checkpoint once it is committed."""
    commit = checkpoints._commit

    def committed(partial: Path, target: Path) -> None:
        commit(partial, target)
        if target.name == "step-000001":
            then(target)

    monkeypatch.setattr(checkpoints, "_commit", committed)


def test_a_disk_that_is_really_full(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of one megabyte cannot be mounted here")
    try:
        assert train(home, mounted / "run", "--steps", "9", reward=home / "good.py") == 2
        assert f"no space left in {mounted / 'run'} while writing" in capfd.readouterr().err
        found = checkpoints.steps(mounted / "run")
        assert found
        assert [checkpoints.broken(path) for path in found.values()] == [None] * len(found)
        shutil.copytree(mounted / "run", tmp_path / "run", symlinks=True)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert train(home, tmp_path / "whole", "--steps", "9", reward=home / "good.py") == 0
    same(tmp_path / "run", tmp_path / "whole")


def test_a_checkpoint_cut_in_half_is_passed_over(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(home / "whole", run, symlinks=True)
    weights = run / "checkpoints" / "step-000003" / "player-policy.safetensors"
    size = weights.stat().st_size
    weights.write_bytes(weights.read_bytes()[: size // 2])
    capfd.readouterr()
    assert main(["resume", str(run)]) == 0
    said = capfd.readouterr().out
    assert f"checkpoint step-000003 is broken (player-policy.safetensors has {size // 2} bytes, but its manifest gives {size})" in said
    assert "continuing from step-000002" in said
    assert RunFolder.open(run).provenance()["resumed"][0]["step"] == 2
    same(run, home / "whole")


def test_without_a_whole_checkpoint_the_run_starts_again(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(home / "whole", run, symlinks=True)
    for manifest in run.glob("checkpoints/*/manifest.json"):
        manifest.unlink()
    assert main(["resume", str(run)]) == 0
    assert "manifest.json is missing); starting again from step 0" in capfd.readouterr().out
    same(run, home / "whole")


# the person


def test_ctrl_c_ends_with_a_sentence_and_the_run_goes_on(home: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "gradus", *words(home, run, home / "good.py", "--steps", "100000")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job would hand on "ignored"
    )
    until(lambda: (run / "checkpoints" / "step-000002").exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    saved = max(checkpoints.steps(run))
    assert said.startswith("\nSIGINT: ")
    assert said.endswith(f"\nstopped; saved up to step {saved}; go on with: gradus resume {run}\n")
    assert len([row for row in RunFolder.open(run).metrics() if "reward" in row]) == saved  # nothing that was done is done again
    assert (run / "report.html").exists()
    assert main(["resume", str(run), "--steps", str(saved + 1)]) == 0
    assert [row["step"] for row in RunFolder.open(run).metrics()] == list(range(saved + 2))


def until(done: Callable[[], bool]) -> None:
    """Waits, two minutes at most."""
    end = time.monotonic() + 120
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    assert done()


# the numbers


@dataclass(frozen=True)
class Poisoned:
    """-mean log pi, times `factor` where the mini-batch holds step `at` only."""

    factor: float
    at: int
    source: str = "policy"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Any, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Any, ...]] = ()

    def loss(self, outputs: dict[Any, torch.Tensor], batch: Any) -> tuple[torch.Tensor, dict[str, Tally]]:
        loss = -(SequenceMean().coefficients(batch, self.source) * outputs[LogProb()]).sum()
        return loss * (self.factor if batch.trajectories[0].id.startswith(f"{self.at}/") else 1.0), {}


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_skipped_and_counted(factor: float) -> None:
    weights: list[torch.Tensor] = []

    def watch(run: Any, metrics: Any, groups: Any) -> None:
        weights.append(run.players["policy"].policy.network.logits.detach().clone())

    poisoned = grpo.but(objective__policy=Poisoned(factor, at=1), objective__kl=None)
    run = train_toy(poisoned, steps=3, watch=watch)
    assert [row["skipped"] for row in run.metrics[:3]] == [0.0, 1.0, 0.0]
    assert not torch.tensor(run.metrics[1]["grad_norm"]).isfinite()
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert bool(weights[2].isfinite().all())
    assert run.players["policy"].updates == 2  # the versions of what is sampled count moves, not steps
