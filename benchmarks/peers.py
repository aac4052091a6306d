"""A GRPO step against TRL's, with the same random model, prompts, reward, precision and threads; each trainer in its own process.

    python -m benchmarks.peers                          # cases a-d, 7 alternating pairs each
    python -m benchmarks.peers --cases c --dtype bfloat16
    python -m benchmarks.peers --learn                  # time from the same start to a reward of 0.9 on arithmetic

Needs TRL: pip install "gradus[benchmarks]". Both trainers do whole steps: sampling, reward, advantages, one update. They take turns, one
step each, so that other load on the machine affects both; the first steps of each are not counted. TRL runs without gradient
checkpointing and without a KL term, which is its fastest setting (a row with `--checkpointing` shows its default). Memory is the peak of
resident memory (and that of a GPU): of the whole process, and the increase since before its first step.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
SPECIAL = ("<pad>", "<unk>", "<end>")
RAW = "{% for message in messages %}{{ message.content }}{% endfor %}"  # a chat template that adds nothing
RATE = 1e-6  # TRL's default; the model stays random, so answers keep their lengths over the counted steps
LEARNING_RATE = 1e-4  # of the learning race
DONE = "\0done"


@dataclass(frozen=True)
class Case:
    """Width of the network (4 layers, heads 64 wide); characters of a prompt; most new tokens; problems x samples of a step."""

    width: int
    prompt: int
    new: int
    prompts: int
    group: int
    least: float  # required speed, as a multiple of TRL's steps per second


CASES = {
    "a": Case(128, 6, 64, 8, 8, 2.0),
    "b": Case(256, 6, 64, 8, 8, 1.5),
    "c": Case(256, 512, 32, 4, 16, 10.0),
    "d": Case(256, 6, 256, 8, 16, 5.0),
}
TOGETHER = 3.5  # required geometric mean

REWARD = '''"""The reward of the speed cases, and that of the learning race: what follows the last "=" is right."""


def letters(completions, **kwargs):
    return [text.count("a") / max(len(text), 1) for text in map(content, completions)]


def right(completions, answer, **kwargs):
    return [float(content(text).rpartition("=")[2].strip() == gold) for text, gold in zip(completions, answer)]


def content(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]
'''


def make_model(folder: Path, case: Case, layers: int = 4, kv_heads: int | None = None) -> None:
    """Writes a random Qwen2 with a tokenizer of one token per character, as transformers saves it. `kv_heads` None: a key head for every head."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders
    from tokenizers.models import BPE
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokens = [*SPECIAL, *CHARACTERS]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokens), hidden_size=case.width, intermediate_size=4 * case.width, num_hidden_layers=layers,
        num_attention_heads=case.width // 64, num_key_value_heads=kv_heads or case.width // 64, max_position_embeddings=1024,
        tie_word_embeddings=True, eos_token_id=2, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    made = Tokenizer(BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[], unk_token="<unk>"))
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    made.decoder = decoders.Fuse()
    made.save(str(folder / "tokenizer.json"))
    fields = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "pad_token": "<pad>", "unk_token": "<unk>",
              "clean_up_tokenization_spaces": False, "chat_template": RAW}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))


def make_prompts(file: Path, case: Case, count: int = 512) -> None:
    import random

    rng = random.Random(0)
    rows = [{"prompt": "".join(rng.choices(CHARACTERS, k=case.prompt))} for _ in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_arithmetic(file: Path, count: int = 4096) -> None:
    """Writes training problems of the demonstration's task as a data file."""
    from gradus.training.plan import load_task
    from gradus.types import Key

    task = load_task("arithmetic")
    problems = task.source.draw(list(range(count)), task.level, Key(0))
    rows = [{"prompt": list(map(dict, p.messages)), "answer": str(p.answer)} for p in problems]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


# the two trainers, each in its process: they wait for a line, do one step, and report its time


class Turns:
    """The calls of a trainer between its steps: it reports the step before, then waits for the next "go"."""

    def __init__(self) -> None:
        self.began = 0.0
        self.held = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here

    def wait(self) -> None:
        if sys.stdin.readline().strip() != "go":
            os._exit(0)
        self.began = time.perf_counter()

    def tell(self, reward: float, tokens: float) -> None:
        import torch

        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.began
        peak = resident("VmHWM") + (torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_initialized() else 0)
        told = {"seconds": seconds, "reward": reward, "tokens": tokens, "peak": peak, "added": peak - self.held}
        print(DONE + json.dumps(told), flush=True)


def resident(which: str) -> float:
    """MiB of resident memory now (VmRSS) or at its peak (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return int(line.split()[1]) / 1024


def ours(job: dict[str, Any]) -> None:
    from gradus.api import start
    from gradus.training.launch import go
    from gradus.training.plan import load_task, plan

    turns: list[Turns] = []

    def on_step(run: Any, metrics: dict[str, Any], groups: Any) -> None:
        turns[0].tell(metrics["reward"], metrics["length"])
        turns[0].wait()

    planned = plan(
        "grpo", job["data"], model=job["model"], reward=job["reward"], steps=job["steps"], seed=job["seed"], device=job["device"]
    )
    recipe = planned.recipe.but(
        objective__kl=None, players__reference=None, study=None,
        setting=planned.recipe.setting.__class__(
            learning_rate=job["rate"], warmup=0, steps=job["steps"], prompts=job["prompts"], group=job["group"], max_tokens=job["new"],
            temperature=1.0, precision=job["dtype"], save_every=0,
        ),
    )  # fmt: skip
    made = start(type(planned)(**{**vars(planned), "recipe": recipe}), on_step=on_step, task=load_task(job["data"]))
    turns.append(Turns())
    turns[0].wait()
    go(made)


def theirs(job: dict[str, Any]) -> None:
    import logging

    logging.disable(logging.WARNING)
    import torch
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(job["threads"])
    scope: dict[str, Any] = {}
    exec(compile(Path(job["reward"].rpartition(":")[0]).read_text(), "reward", "exec"), scope)  # the file written above
    batch = job["prompts"] * job["group"]
    config = GRPOConfig(
        output_dir=job["folder"], per_device_train_batch_size=batch, num_generations=job["group"], max_completion_length=job["new"],
        gradient_checkpointing=job["checkpointing"], max_steps=job["steps"], learning_rate=job["rate"], lr_scheduler_type="constant",
        beta=0.0, loss_type="grpo", temperature=1.0, seed=job["seed"], use_cpu=job["device"] == "cpu", bf16=job["dtype"] == "bfloat16", report_to="none",
        save_strategy="no", logging_steps=1, disable_tqdm=True,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    data = load_dataset("json", data_files=job["data"], split="train", cache_dir=job["folder"])
    turns = Turns()

    class Gate(TrainerCallback):
        seen: dict[str, float] = {}

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            turns.wait()

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
            if logs and "reward" in logs:  # called after the end of the step, so the time is taken here
                turns.tell(logs["reward"], logs["completions/mean_length"])

    trainer = GRPOTrainer(model, scope[job["reward"].rpartition(":")[2]], config, data, processing_class=tokenizer, callbacks=[Gate()])
    trainer.train()


class Side:
    """A trainer in its process."""

    def __init__(self, name: str, job: dict[str, Any]) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(job["threads"]),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONWARNINGS": "ignore",
        }
        self.name, self.errors = name, tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers", "--side", name, "--job", json.dumps(job)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment,
        )  # fmt: skip

    def step(self) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(DONE):
                return json.loads(line[len(DONE) :])
        self.errors.seek(0)
        raise RuntimeError(f"{self.name} ended:\n{self.errors.read()[-3000:]}")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def race(folder: Path, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Times and memory of alternating steps of both trainers."""
    model, data, reward = folder / "model", folder / "prompts.jsonl", folder / "reward.py"
    make_model(model, case)
    make_prompts(data, case)
    reward.write_text(REWARD)
    job = {
        **asdict(case), "model": str(model), "data": str(data), "reward": f"{reward}:letters", "folder": str(folder), "dtype": options.dtype,
        "steps": options.pairs + options.warm + 1, "seed": 0, "rate": options.rate, "checkpointing": options.checkpointing,
        "threads": options.threads,
        "device": options.device,
    }  # fmt: skip
    sides = [Side("ours", job), Side("theirs", job)]
    seen: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    for pair in range(options.warm + options.pairs):
        for side in sides if pair % 2 else sides[::-1]:
            told = side.step()
            if pair >= options.warm:
                seen[side.name].append(told)
    for side in sides:
        side.end()
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(seen["ours"], seen["theirs"])]
    return {
        "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
        **{f"{name}/{what}": statistics.median(told[what] for told in rows) for name, rows in seen.items() for what in ("seconds", "tokens")},
        **{f"{name}/{what}": max(told[what] for told in rows) for name, rows in seen.items() for what in ("peak", "added")},
    }  # fmt: skip


def learn(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of training, from the built-in model, until the mean reward of three steps in a row is 0.9; the trainers take turns."""
    from gradus.policies.tiny import folder as tiny

    data, reward = folder / "arithmetic.jsonl", folder / "reward.py"
    make_arithmetic(data)
    reward.write_text(REWARD)
    job = {
        "model": str(tiny()), "data": str(data), "reward": f"{reward}:right", "folder": str(folder), "dtype": options.dtype, "new": 48,
        "prompts": 16, "group": 8, "steps": options.most + 1, "seed": options.seed, "rate": LEARNING_RATE, "checkpointing": options.checkpointing,
        "threads": options.threads,
        "device": options.device,
    }  # fmt: skip
    out: dict[str, Any] = {}
    for name in ("ours", "theirs"):
        side, rewards, seconds = Side(name, job), [], 0.0
        while len(rewards) < options.most and (len(rewards) < 3 or statistics.mean(rewards[-3:]) < 0.9):
            told = side.step()
            rewards.append(told["reward"])
            seconds += told["seconds"]
        side.end()
        out |= {f"{name}/seconds": seconds, f"{name}/steps": len(rewards), f"{name}/first": rewards[0], f"{name}/last": rewards[-1]}
        print(f"{name}: reward {rewards[0]:.3f} -> {rewards[-1]:.3f} in {len(rewards)} steps, {seconds:.1f} s", flush=True)
    return {**out, "ratio": out["theirs/seconds"] / out["ours/seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="a,b,c,d")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--warm", type=int, default=2, help="steps of each before the counted ones")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=RATE, help="learning rate of the cases; with 1e-4 answers grow meanwhile")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpointing", action="store_true", help="TRL with gradient checkpointing, its default")
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--most", type=int, default=80, help="most steps of the learning race")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return {"ours": ours, "theirs": theirs}[options.side](json.loads(options.job))
    if options.learn:
        with tempfile.TemporaryDirectory() as folder:
            print(f"time to 0.9: TRL takes {learn(Path(folder), options)['ratio']:.2f} times as long")
        return None
    print("case   ratio  (range)          s per step, ours / TRL tokens, ours / TRL   peak MiB, ours / TRL   added MiB, ours / TRL   required")
    ratios = []
    for name in options.cases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row = race(Path(folder), CASES[name], options)
        ratios.append(row["ratio"])
        pair = {what: (row[f"ours/{what}"], row[f"theirs/{what}"]) for what in ("seconds", "tokens", "peak", "added")}
        print(
            f"{name:<4} {row['ratio']:7.2f}  ({row['least']:.2f}-{row['most']:.2f})".ljust(31)
            + "{:.3f} / {:.3f}".format(*pair["seconds"]).ljust(23) + "{:.1f} / {:.1f}".format(*pair["tokens"]).ljust(21)
            + "{:.0f} / {:.0f}".format(*pair["peak"]).ljust(23) + "{:.0f} / {:.0f}".format(*pair["added"]).ljust(24) + f"{CASES[name].least}",
            flush=True,
        )  # fmt: skip
    print(f"geometric mean {math.prod(ratios) ** (1 / len(ratios)):.2f} (required over a-d: {TOGETHER})")
    return None


if __name__ == "__main__":
    main()
