"""Kills training runs with SIGKILL at random moments, resumes them each time, and compares them with runs that were never interrupted.

    python -m benchmarks.kills --kills 200

Recipes of every kind take turns: answers judged as they come, answers in flight, data sets that are made and read again, a source with
refills, a critic, many turns, a reward model that is trained too, lagged weights, learned text, averaged weights, stages, a masked language
model, a model that reads pictures, a controller with a replay, two seats, branches of episodes, rollouts in advance, workers that stream, and, if
isolation works, programs and tools. All deterministic files must be equal byte for byte: metrics, every stored rollout, and the whole last checkpoint
with weights, optimisers and the state of the parts. No rollout may be missing or stored twice. The result of workers that stream depends on the
clock, so such a run is compared with its own replay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.forked import Forked
from gradus.sandbox import missing

TOOLS = f"{Path(__file__).with_name('tool_task.py')}:task"
SMALL = ("--prompts", "4", "--group", "4", "--save_every", "3", "--eval_every", "5", "--study.problems", "4")


@dataclass(frozen=True)
class Kind:
    """A recipe and its task, chosen for its state between steps."""

    what: str
    recipe: str
    task: str = "arithmetic"
    more: tuple[str, ...] = ()  # options of its own
    clock: bool = False  # whether the clock decides the result


KINDS: Mapping[str, Kind] = {
    kind.recipe: kind
    for kind in (
        Kind("online", "grpo"),
        Kind("answers in flight", "pipeline_rl"),
        Kind("replay: rounds of generated data", "expert_iteration"),
        Kind("curriculum with refills, two tasks", "dapo", "arithmetic:2,countdown:1"),
        Kind("critic", "ppo"),
        Kind("many turns", "gigpo", "frozen_lake"),
        Kind("a second model that learns", "prime"),
        Kind("lagged weights", "m2po"),
        Kind("learned text", "training_free_grpo"),
        Kind("averaged weights", "awm", "flow_2d"),
        Kind("stages", "sft:10,grpo:14"),
        Kind("sub-agents aside, in rounds", "webthinker", "research"),
        Kind("unmasking", "coupled_grpo", "sudoku4"),
        Kind("pictures", "papo", "shapes"),
        Kind("a controller, replayed turns", "sac", "pendulum", ("--selection.warmup", "20", "--selection.batch", "32", "--rollout.length", "8")),
        Kind("seats", "at_grpo", "sokoban", ("--task.team", "true", "--rollout.play.max_turns", "4")),
        Kind("branches", "arpo", "frozen_lake"),
        Kind("rollouts in advance", "dr_grpo", more=("--system", "Ahead", "--system.steps", "2")),
        Kind("workers that stream", "areal", more=("--system.staleness", "2"), clock=True),
        *((Kind("programs that are run", "rloo", "code"), Kind("tools", "reinforce", TOOLS)) if missing() is None else ()),
    )
}


def train(run: Path, kind: Kind, steps: int, size: Sequence[str]) -> list[str]:
    return ["train", kind.recipe, "--task", kind.task, "--steps", str(steps), "--run", str(run), *size, *kind.more]


def fingerprint(run: Path) -> dict[str, str]:
    """Path within the run -> SHA-256, of all files that must not depend on interruptions."""
    last = (run / "final").resolve().parent
    rows = [path for kind in ("made", "screened") for path in sorted((run / kind).glob("*"))]  # of stages
    files = [run / "metrics.jsonl", *sorted((run / "rollouts").iterdir()), *rows, *sorted(p for p in last.rglob("*") if p.is_file())]
    return {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def miscounted(run: Path) -> list[str]:
    """Trajectories that are stored more than once, and steps with no line or several lines of metrics."""
    from gradus.lab.folder import RunFolder

    folder = RunFolder.open(run)
    ids = Counter(t.id for _, group in folder.rollouts() for t in group.trajectories)
    steps = Counter(row["step"] for row in folder.metrics() if "ended" not in row)
    holes = [f"step {n}" for n in range(max(steps) + 1) if steps[n] != 1]
    return [*(f"rollout {name}, {times} times" for name, times in ids.items() if times > 1), *holes]


def unrepeated(forked: Forked, run: Path, log: Path) -> list[str]:
    """The errors of a run that depends on the clock: the differences from its replay, and the requests that two steps have trained on."""
    from gradus.lab.folder import RunFolder
    from gradus.training.streaming import CALL

    code = forked.start(["replay", str(run)], log).wait()
    folder = RunFolder.open(run)
    numbers = Counter(one[0] for step in range(folder.done()) for one in json.loads(folder.facts(step).get(CALL, "[]")))
    twice = [f"request {number}, {times} times" for number, times in numbers.items() if times > 1]
    return [*([] if code == 0 else [f"the replay: {log.read_text()[-500:]}"]), *twice, *([] if numbers else ["no request"])]


@dataclass
class Found:
    """The results of the kills of one kind."""

    struck: int = 0
    runs: int = 0
    before: int = 0  # kills before the run had its folder
    different: tuple[str, ...] = ()


def finish(forked: Forked, run: Path, words: Sequence[str], log: Path) -> tuple[float, float]:
    """Runs a command. Returns the seconds to the end of its first step, and in total. Raises RuntimeError if the command fails."""
    began, first = time.monotonic(), None
    process = forked.start(words, log)
    while (code := process.wait(0.01)) is None:
        if first is None and (run / "metrics.jsonl").exists():
            first = time.monotonic() - began
    if code != 0:
        raise RuntimeError(f"gradus {' '.join(words)} ended with {code}: {log.read_text()[-2000:]}")
    whole = time.monotonic() - began
    return first or whole, whole


def strike(
    forked: Forked, home: Path, kind: Kind, *, steps: int, kills: int, rng: random.Random, size: Sequence[str] = SMALL, stride: float = 6.0,
    signals: Sequence[int] = (signal.SIGKILL,),
) -> Found:  # fmt: skip
    """Kills runs of a kind, resumes each until it is finished, and compares it with an uninterrupted run, until there were `kills` kills.

    A kill comes at a random moment between the start of a process and the end of its first `stride` steps. `signals`: one of them, at random, is sent.
    """
    found, whole, log = Found(), home / f"{kind.recipe}-whole", home / "log"
    first, seconds = finish(forked, whole, train(whole, kind, steps, size), log)
    longest = first + stride * (seconds - first) / steps
    expected = fingerprint(whole)
    different = [f"whole run: {what}" for what in miscounted(whole)]
    while found.struck < kills:
        run = home / f"{kind.recipe}-{found.runs}"
        found.runs += 1
        done = False
        while not done:
            exists = (run / "recipe.json").exists()
            words = ["resume", str(run)] if exists else train(run, kind, steps, size)
            process = forked.start(words, log)
            code = process.wait(rng.uniform(0.0, longest) if found.struck < kills else 600.0)
            if code is None:
                process.kill(rng.choice(signals))
                process.wait()
                found.struck += 1
                found.before += not (run / "recipe.json").exists()
            elif code != 0:
                raise RuntimeError(f"gradus {' '.join(words)} ended with {code}: {log.read_text()[-2000:]}")
            done = code == 0
        ours = expected if kind.clock else fingerprint(run)
        different += sorted(f"{run.name}: {path}" for path in {*expected, *ours} if expected.get(path) != ours.get(path))
        different += [f"{run.name}: {what}" for what in (unrepeated(forked, run, log) if kind.clock else ())]
        different += [f"{run.name}: {what}" for what in miscounted(run)]
    found.different = tuple(different)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--recipes", default=",".join(KINDS), help="which of: " + ", ".join(f"{k.recipe} ({k.what})" for k in KINDS.values())
    )
    parser.add_argument("--kills", type=int, default=20, help="number in total, spread over the recipes")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds = [KINDS[name] for name in options.recipes.split(",")]
    rng, failed, total = random.Random(options.seed), False, 0
    with tempfile.TemporaryDirectory() as home, Forked() as forked:
        for number, kind in enumerate(kinds):
            kills = (number + 1) * options.kills // len(kinds) - number * options.kills // len(kinds)
            if not kills:
                continue
            began = time.monotonic()
            found = strike(forked, Path(home), kind, steps=options.steps, kills=kills, rng=rng)
            total += found.struck
            print(
                f"{kind.recipe} on {kind.task} ({kind.what}): {found.struck} kills over {found.runs} runs of {options.steps} steps, "
                f"{found.before} before there was a run; {len(found.different)} differences {list(found.different[:5])} "
                f"({time.monotonic() - began:.0f} s)",
                flush=True,
            )
            failed |= bool(found.different)
    print(f"{total} kills in all, {'DIFFERENCES' if failed else 'every resumed run equals the uninterrupted one byte for byte'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
