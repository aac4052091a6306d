"""Ten thousand calls of a reward function, of which a thousand fail in ten ways, against the same calls without failures.

    python -m benchmarks.rewards

No failure may enter an update, all must be in quarantine.jsonl with kind and reason, none of their processes may remain, and the whole may
take 1.1 times the clean run plus hangs x limit / workers plus 0.1 s per kill. A hang is an attempt that was ended at its limit, a kill the
end of a worker. Each call judges one answer, a hundred groups of a hundred at a time, as in a step, by the parts of a run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.lab.folder import RunFolder
from gradus.rewards.functions import Function
from gradus.runtime.cores import usable_cores
from gradus.selection.filters import without_failures
from gradus.training.lessons import with_credit
from gradus.training.world import RunWorld
from gradus.types import Context, Failed, Group, Key, Outcome, Problem, Sampling, Trajectory
from gradus.types.batch import make_batch
from gradus.types.parts import Task
from gradus.workers.pool import pool_of, stop_workers

FUNCTION = '''
"""Does what the answer says; takes {work} s of the processor for any other."""

import os
import time


def reward(completions, **kwargs):
    word = completions[0]
    if word == "raise":
        raise ValueError("no such word")
    if word == "hang":
        time.sleep(1000)
    if word == "spin":
        while True:
            pass
    if word == "exit":
        os._exit(3)
    if word == "abort":
        os.abort()
    if word == "memory":
        held = [bytearray(1 << 24) for _ in range(256)]
    if word == "print":
        while True:
            os.write(1, b"x" * 65536)
    if word == "fork":
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                os.execvp("sleep", ["sleep", "{sleep}"])
        os._exit(1)
    if word == "nan":
        return [float("nan")]
    if word == "wrong":
        return ["good", 1.0]
    end = time.process_time() + {work}
    while time.process_time() < end:
        pass
    return [float(len(word) % 3)]
'''

KINDS = {  # text of the answer -> kind of failure
    "raise": "raised",
    "hang": "timed out",
    "spin": "timed out",
    "exit": "died",
    "abort": "died",
    "memory": "out of memory",
    "print": "invalid",
    "fork": "died",
    "nan": "invalid",
    "wrong": "invalid",
}
SLEEP = 86_400 + os.getpid()  # seconds; this number identifies the processes that are left behind


class Problems:
    """A source without problems, because the answers are given."""

    size = 0

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        return []


def groups_of(words: Sequence[str], size: int = 100) -> list[Group]:
    """Groups of `size` answers, to be judged."""
    groups = []
    for start in range(0, len(words), size):
        problem = Problem(f"p/{start // size}", "words", ({"role": "user", "content": "say a word"},), plain=True)
        rows = [answered(problem, start + i, word) for i, word in enumerate(words[start : start + size])]
        groups.append(Group(problem.id, tuple(rows)))
    return groups


def answered(problem: Problem, number: int, word: str) -> Trajectory:
    tokens = np.array([1, 2, 3], np.int32)
    context = Context(tokens, np.array([False, True, True]), np.zeros(2, np.float32), np.zeros(2, np.int32))
    return Trajectory(f"0/{number}", problem, (context,), completion=word)


def judge(groups: Sequence[Group], reward: Function, folder: RunFolder, step: int, at_once: int) -> tuple[list[Group], float]:
    """The groups with rewards, judged `at_once` groups at a time, and the seconds."""
    source = Problems()
    world = RunWorld(
        step=step,
        purpose="train",
        seed=Key(0),
        task=Task("words", source, source),
        players={},
        reward=reward,
        sampling=Sampling(),
        group=100,
        decided=partial(folder.append_fact, step),
        failed=partial(folder.append_failed, step),
    )
    with silent():
        began = time.perf_counter()
        done = [g for start in range(0, len(groups), at_once) for g in asyncio.run(world.judge(groups[start : start + at_once]))]
        return done, time.perf_counter() - began


@contextmanager
def silent() -> Iterator[None]:
    """Discards standard error, which would show the output of the reward function."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def left_behind() -> int:
    """The number of running processes that the failing calls started."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += path.read_bytes().split(b"\0")[:2] == [b"sleep", str(SLEEP).encode()]
        except OSError:
            continue
    return count


def wrong_outcomes(words: Sequence[str], outcomes: Sequence[Outcome | None]) -> list[str]:
    """Texts about wrong outcomes."""
    found = []
    for word, outcome in zip(words, outcomes, strict=True):
        failed = outcome.kind.value if isinstance(outcome, Failed) else None
        if failed != KINDS.get(word) or (failed is None and outcome != float(len(word) % 3)):
            found.append(f"{word}: {outcome}")
    return found


def measure(
    calls: int, failures: int, *, limit: float, workers: int, work: float, retries: int, at_once: int
) -> tuple[dict[str, float], list[str]]:
    """The figures, and texts about missed requirements."""
    rng = np.random.default_rng(0)
    clean = ["yes" * (1 + i % 5) for i in range(calls)]
    bad = list(clean)
    kinds = list(KINDS)
    for n, place in enumerate(rng.permutation(calls)[:failures]):
        bad[int(place)] = kinds[n % len(kinds)]
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "reward.py"
        path.write_text(FUNCTION.replace("{work}", str(work)).replace("{sleep}", str(SLEEP)))
        reward = Function(f"{path}:reward", timeout=limit, memory=1 / 16, batch=1, retries=retries, workers=workers)
        folder = RunFolder.create(Path(home) / "run", {"key": "benchmark"}, {})
        pool = pool_of(reward.path)
        try:
            judge(groups_of(clean[: calls // 10]), reward, folder, 0, at_once)  # warm
            _, fine = judge(groups_of(clean), reward, folder, 1, at_once)
            before = Counter(pool.ended)
            done, took = judge(groups_of(bad), reward, folder, 2, at_once)
            ended = Counter(pool.ended) - before
        finally:
            stop_workers()
        left = left_behind()
        stored = folder.quarantine()
    hangs, kills = ended["timed out"], sum(ended.values())
    bound = 1.1 * fine + hangs * limit / workers + 0.1 * kills
    kept = without_failures(done)
    batch = make_batch(with_credit(kept, GroupRelative().assign(kept, {})), {})
    outcomes = [t.reward for g in done for t in g.trajectories]
    due = {f"0/{i}": KINDS[word] for i, word in enumerate(bad) if word in KINDS}
    told = {record["trajectory"]: record["kind"] for record in stored if record["reason"]}
    missed = [f"judged wrongly: {text}" for text in wrong_outcomes(bad, outcomes)[:5]]
    entered = due.keys() & {t.id for t in batch.trajectories}
    missed += [f"{len(entered)} failed answers entered the update"] if entered else []
    missed += ["the update lacks answers that have a reward"] if len(batch.trajectories) != calls - len(due) else []
    missed += [f"the quarantine has {len(told)} of {len(due)} failures, or other kinds"] if told != due or len(stored) != len(due) else []
    missed += [f"{left} processes were left behind"] if left else []
    missed += [f"it took {took:.1f} s of {bound:.1f} s"] if took > bound else []
    figures = {"calls": calls, "failures": len(due), "workers": workers, "retries": retries, "clean": fine, "failing": took, "bound": bound}
    figures |= {"hangs": hangs, "kills": kills} | {f"ended: {kind}": count for kind, count in sorted(ended.items())}
    return {**figures, "in update": len(batch.trajectories), "quarantined": len(stored)}, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--failures", type=int, default=1_000)
    parser.add_argument("--limit", type=float, default=2.0, help="limit of a call in seconds")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--work", type=float, default=0.001, help="processor seconds of a call that does not fail")
    parser.add_argument("--retries", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--at-once", type=int, default=100, help="number of groups that are judged at once")
    options = parser.parse_args()
    code = 0
    for retries in options.retries:
        figures, missed = measure(
            options.calls,
            options.failures,
            limit=options.limit,
            workers=options.workers,
            work=options.work,
            retries=retries,
            at_once=options.at_once,
        )
        print(json.dumps({name: round(value, 2) for name, value in figures.items()}), flush=True)
        for text in missed:
            print(f"MISSED: {text}")
        code = code or int(bool(missed))
    return code


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
