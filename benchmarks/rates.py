"""Test of the rule for learning rates: GRPO on models of six sizes, at the rule's rate, at a third and at three times of it.

    python -m benchmarks.rates_models --to models                  # five sizes; a sixth folder pair may be added: 135M-plain, 135M-chat
    python -m benchmarks.rates --models models --out results       # runs the missing arms in order of cost, then prints the table
    python -m benchmarks.rates --models models --out results --table

Every arm is `gradus train grpo --model FOLDER --task TASK --reward REWARD --steps 40 --seed S --max_tokens 12`, with `--learning_rate X` for other
rates than the rule's. TASK: 64 beginnings of sentences. Rewards, fixed before the first run: folders without a chat template `short_words`, with one
`whole_sentence` (benchmarks/rates_rewards.py); the best reward is 1, so headroom = 1 - start. start: mean reward of the first 3 steps (of 40, the
rate still warms up); end: mean of the last 5. gain = (end - start) / headroom; required: 0.5 or more at the median of three seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gradus
from gradus.players.rates import rate_for, size_of

SIZES = ("0.3M", "1M", "4M", "11M", "33M", "135M")
REWARDS = {"plain": "short_words", "chat": "whole_sentence"}
PROMPTS = {"plain": "raw", "chat": "template"}
OPENINGS = ("The {}", "A {} is", "Return the {}", "If the {}")
THINGS = ["file", "model", "value", "name", "list", "tree", "word", "table", "graph", "key", "line", "test", "code", "image", "number", "window"]
STEPS, FIRST, LAST = 40, 3, 5


@dataclass(frozen=True)
class Arm:
    size: str
    kind: str  # plain, chat
    factor: float  # times the rule's rate
    seed: int
    steps: int = STEPS
    adapter: bool = False
    precision: str = "float32"


def arms(options: argparse.Namespace) -> Iterator[Arm]:
    """The arms that the options name, the cheapest first."""
    for size in options.sizes.split(","):
        for factor in map(float, options.factors.split(",")):
            for kind in options.kinds.split(","):
                for seed in map(int, options.seeds.split(",")):
                    yield Arm(size, kind, factor, seed, options.steps, options.adapter, options.precision)


def write_task(path: Path, kind: str) -> Path:
    """The beginnings of sentences: text, which a model gets as it is, or for `chat` messages, which it gets in its template."""
    texts = [opening.format(thing) for thing in THINGS for opening in OPENINGS]
    rows = [{"prompt": [{"role": "user", "content": text}] if kind == "chat" else text} for text in texts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trained(arm: Arm, models: Path, out: Path, rate: float | None) -> dict[str, Any]:
    """The rewards of an arm's steps and the numbers that tell how far the policy moved. `rate`: in place of factor times the rule's."""
    folder, task = models / f"{arm.size}-{arm.kind}", write_task(out / f"beginnings-{arm.kind}.jsonl", arm.kind)
    given = {} if rate is None and arm.factor == 1 else {"setting__learning_rate": rate or arm.factor * rate_for(size_of(folder), adapter=arm.adapter)}
    adapted = {"players__policy": gradus.load_recipe("grpo").players["policy"]} if arm.adapter else {}
    if arm.adapter:
        from gradus.types.players import Adapter

        adapted = {"players__policy": replace(adapted["players__policy"], model=Adapter())}
    reward = f"{Path(__file__).with_name('rates_rewards.py')}:{REWARDS[arm.kind]}"
    began = time.perf_counter()

    def shown(run: gradus.Run, row: Mapping[str, Any], groups: object) -> None:
        print(f"  step {row['step']}: reward {row['reward']:.3f}, KL {row['kl']:.2g}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    run = gradus.train(
        "grpo", str(task), model=str(folder), reward=reward, steps=arm.steps, seed=arm.seed, setting__max_tokens=12,
        setting__precision=arm.precision, on_step=shown, **adapted, **given
    )  # fmt: skip
    rows = [row for row in run.metrics if "reward" in row]
    return {
        **asdict(arm),
        "parameters": size_of(folder),
        "prompt": PROMPTS[arm.kind],
        "rate": run.recipe.setting.learning_rate,
        "rewards": [round(row["reward"], 4) for row in rows],
        "entropy": [round(row["entropy"], 3) for row in rows],
        "kl": [row["kl"] for row in rows],
        "grad_norm": [row.get("grad_norm") for row in rows],
        "informative": [row["informative"] for row in rows],
        "length": [row["length"] for row in rows],
        "seconds": round(time.perf_counter() - began, 1),
    }


def gain(row: dict[str, Any]) -> tuple[float, float, float]:
    """Start, end, and the share of the headroom that the arm gained."""
    start, end = statistics.mean(row["rewards"][:FIRST]), statistics.mean(row["rewards"][-LAST:])
    return start, end, (end - start) / (1 - start)


def table(rows: list[dict[str, Any]]) -> str:
    """One line per size, kind, prompts and precision: medians over the seeds at the rule's rate, and the gains at other rates."""
    lines = ["| model | parameters | folder, reward | rule's rate | start | end | gain by seed | KL at the end | gain at other rates |"]
    lines.append("| --- " * 9 + "|")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda r: (r["parameters"], r["adapter"], r["kind"], r["prompt"] == "default", r["rate"], r["seed"])):
        names = ("size", "parameters", "kind", "adapter", "steps", "precision", "prompt")
        groups.setdefault(tuple(row.get(name, "float32") for name in names), []).append(row)
    for (size, parameters, kind, adapter, steps, precision, prompt), same in groups.items():
        rate = rate_for(parameters, adapter=adapter)
        chosen = [row for row in same if abs(row["rate"] - rate) < 0.01 * rate]
        unusual = [("adapter", adapter), (precision, precision != "float32"), (f"{steps} steps", steps != STEPS)]
        unusual.append((f"{prompt} prompts", prompt != PROMPTS[kind]))
        about = ", ".join([kind, REWARDS[kind], *(word for word, said in unusual if said)])
        others = ", ".join(f"{row['rate']:.2g}: {gain(row)[2]:.2f}" for row in same if row not in chosen)
        lines.append(f"| {size} | {parameters:,} | {about} | {rate:.2g} | {_medians(chosen)} | {others or '-'} |")
    return "\n".join(lines)


def _medians(rows: list[dict[str, Any]]) -> str:
    """Start and end (medians over seeds), the gain of every seed, and the KL of the last steps (median)."""
    if not rows:
        return "- | - | - | -"
    found = [gain(row) for row in rows]
    start, end = statistics.median(g[0] for g in found), statistics.median(g[1] for g in found)
    kl = statistics.median(statistics.mean(row["kl"][-LAST:]) for row in rows)
    return f"{start:.2f} | {end:.2f} | {', '.join(f'{g[2]:.2f}' for g in found)} | {kl:.2f}"


def _same(row: dict[str, Any], arm: Arm) -> bool:
    """Whether a result is that of an arm, apart from the rate."""
    wanted = {**asdict(arm), "prompt": PROMPTS[arm.kind]}
    return all(row.get(name, "float32") == value for name, value in wanted.items() if name != "factor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of results.jsonl; finished arms in it are not run again")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--kinds", default="plain,chat")
    parser.add_argument("--factors", default="1,0.333,3")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--adapter", action="store_true")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--rates", default="", help="rates to try in place of the factors")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if not options.table:
        tried: list[float | None] = [float(text) for text in options.rates.split(",")] if options.rates else [None]
        todo = [(arm, rate) for arm in arms(options) for rate in tried]
        for number, (arm, rate) in enumerate(todo, 1):
            due = rate or float(f"{arm.factor * rate_for(size_of(options.models / f'{arm.size}-{arm.kind}'), adapter=arm.adapter):.3g}")
            if any(_same(row, arm) and abs(row["rate"] - due) < 0.01 * due for row in rows):
                continue
            row = trained(arm, options.models, options.out, rate or (None if arm.factor == 1 else due))
            rows.append(row)
            with open(results, "a") as file:
                file.write(json.dumps(row) + "\n")
            start, end, share = gain(row)
            print(
                f"{number}/{len(todo)} {arm.size}-{arm.kind} seed {arm.seed} rate {row['rate']:.2g}: {start:.3f} -> {end:.3f}, gain {share:.2f}, "
                f"KL {statistics.mean(row['kl'][-LAST:]):.3g}, {row['seconds']:.0f} s; about {row['seconds'] * (len(todo) - number) / 60:.0f} min left at this pace",
                flush=True,
            )
    print(table(rows))


if __name__ == "__main__":
    main()
