"""Sampling against OpenVINO GenAI and CTranslate2 on the CPU, in alternating rounds: tokens per second, in float32 and bfloat16.

    python -m benchmarks.engines --exporter PATH/TO/optimum-cli       # widths 256 and 512
    python -m benchmarks.engines --lengths                            # ours alone: the price of a token by the length of the answer

256 answers of equal length to 16 prompts of 16 tokens, at temperature 1, of a random Qwen2 (heads 64 wide; 4 layers, at width 512 eight). All engines have
the same weights and threads. Needs: pip install "gradus[engines]". OpenVINO reads a model that `optimum-cli` has exported; optimum-intel needs an
older transformers than Gradus, so install it in an environment of its own: pip install "optimum-intel[openvino]".

OpenVINO runs with prefix caching, 16 answers a request, and keys and values in the type of the weights, and again in 8 bits, its default on a CPU. CTranslate2
runs with batches of 64 and of 256; without support for bfloat16 on this processor, its float32 is compared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import CASES, CHARACTERS, SPECIAL, make_model
from gradus.policies.engine import Job, generate
from gradus.policies.lm import LanguageModel
from gradus.types import Key, Sampling

PROMPTS, GROUP, PROMPT = 16, 16, 16
LAYERS = {256: 4, 512: 8}
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Sample = Callable[[], int]
"""Samples all answers and returns the number of their tokens."""


def prompts() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.integers(len(SPECIAL), len(SPECIAL) + len(CHARACTERS), (PROMPTS, PROMPT))


def model_of(folder: Path, width: int, kv_heads: int | None = None) -> Path:
    """Writes the random model of a width, and returns its folder."""
    make_model(folder, replace(CASES["a"], width=width), layers=LAYERS[width], kv_heads=kv_heads)
    return folder


def ours(folder: Path, kind: str, new: int) -> Sample:
    model = LanguageModel.load(folder, dtype=KINDS[kind])
    rows = prompts().repeat(GROUP, 0).astype(np.int32)
    jobs = [Job(row, Sampling(max_tokens=new), Key(i).value) for i, row in enumerate(rows)]

    def sample() -> int:
        found = generate(model.trunk, jobs, end_tokens=(), decode_text=model.text, max_context=model.context_length)
        return sum(len(s.tokens) for s in found)

    return sample


def openvino(folder: Path, kind: str, new: int, threads: int, cache: str) -> Sample:
    """A pipeline of continuous batches. `cache`: the type of keys and values."""
    import openvino
    import openvino_genai

    settings = openvino_genai.SchedulerConfig()
    settings.cache_size, settings.max_num_batched_tokens, settings.max_num_seqs, settings.enable_prefix_caching = 4, 1024, 256, True
    properties = {"INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[kind], "INFERENCE_NUM_THREADS": threads, "KV_CACHE_PRECISION": cache}
    pipeline = openvino_genai.ContinuousBatchingPipeline(str(folder), settings, "CPU", properties)
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = new
    config.ignore_eos, config.do_sample, config.temperature, config.top_k, config.num_return_sequences = True, True, 1.0, 1 << 20, GROUP
    asked = [openvino.Tensor(prompt[None].astype(np.int64)) for prompt in prompts()]
    return lambda: sum(len(ids) for found in pipeline.generate(asked, [config] * PROMPTS) for ids in found.m_generation_ids)


def ctranslate2(folder: Path, kind: str, new: int, threads: int, batch: int) -> Sample:
    import ctranslate2

    supported = kind if kind in ctranslate2.get_supported_compute_types("cpu") else "float32"
    generator = ctranslate2.Generator(str(folder), device="cpu", compute_type=supported, intra_threads=threads, inter_threads=1)
    names = [*SPECIAL, *CHARACTERS]
    asked = [[names[t] for t in prompt] for prompt in prompts().repeat(GROUP, 0)]
    options = {"max_length": new, "min_length": new, "sampling_topk": 0, "sampling_temperature": 1.0, "end_token": []}

    def sample() -> int:
        found = generator.generate_batch(asked, max_batch_size=batch, include_prompt_in_result=False, return_scores=True, **options)
        return sum(len(one.sequences_ids[0]) for one in found)

    return sample


def rounds(sides: Mapping[str, Sample], count: int) -> dict[str, list[float]]:
    """Tokens per second of every side in every round; the first round is not counted."""
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(count + 1):
        for name, sample in sides.items():
            began = time.perf_counter()
            tokens = sample()
            if turn:
                seen[name].append(tokens / (time.perf_counter() - began))
    return seen


def line(width: int, kind: str, name: str, speeds: list[float], own: list[float]) -> str:
    ratios = [a / b for a, b in zip(own, speeds, strict=True)]
    return (
        f"{width:5}  {kind:9} {name:22} {statistics.median(speeds):9.0f}  {statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    )


def against(folder: Path, options: argparse.Namespace) -> None:
    print("width  type      engine                 tokens/s   ours / engine (range)")
    for width in options.widths:
        model = model_of(folder / str(width), width)
        exported, converted = folder / f"{width}-openvino", folder / f"{width}-ctranslate2"
        arguments = ["export", "openvino", "--model", str(model), "--task", "text-generation-with-past", "--weight-format", "fp32", str(exported)]
        subprocess.run([options.exporter, *arguments], check=True, capture_output=True)
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(model)).convert(str(converted))
        for kind in options.kinds:
            narrow = {"float32": "f32", "bfloat16": "bf16"}[kind]
            sides: dict[str, Sample] = {"ours": ours(model, kind, options.new)}
            for cache in (narrow, "u8"):
                sides[f"OpenVINO, cache {cache}"] = openvino(exported, kind, options.new, options.threads, cache)
            for batch in (64, 256):
                sides[f"CTranslate2, batch {batch}"] = ctranslate2(converted, kind, options.new, options.threads, batch)
            seen = rounds(sides, options.rounds)
            for name, speeds in seen.items():
                print(line(width, kind, name, speeds, seen["ours"]), flush=True)
            del sides


def lengths(folder: Path, options: argparse.Namespace) -> None:
    """Prints the price of a token of answers with 256 and with 1,000 tokens, with a key head for every head and for every four heads."""
    print("type      key heads   tokens/s at 256   at 1000   ratio of a token's time (range)   float32 at 256 / this")
    plain: list[float] = []
    for kv_heads in (4, 1):
        model = model_of(folder / f"kv{kv_heads}", 256, kv_heads)
        for kind in KINDS:
            seen = rounds({"short": ours(model, kind, 256), "long": ours(model, kind, 1000)}, options.rounds)
            ratios = [a / b for a, b in zip(seen["short"], seen["long"], strict=True)]
            short, long = (statistics.median(seen[name]) for name in ("short", "long"))
            plain = plain if kind == "bfloat16" else seen["short"]
            print(
                f"{kind:9} {kv_heads:9} {short:17.0f} {long:9.0f}   {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
                f"{short / statistics.median(plain):30.2f}", flush=True,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 512], choices=[256, 512])
    parser.add_argument("--new", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=[*KINDS])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--exporter", default="optimum-cli", help="the command that exports a model for OpenVINO")
    parser.add_argument("--lengths", action="store_true", help="ours alone, by the length of the answers")
    options: Any = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        (lengths if options.lengths else against)(Path(folder), options)


if __name__ == "__main__":
    main()
