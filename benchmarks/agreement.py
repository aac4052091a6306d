"""The mismatch between rollout and update: log-probabilities of samples, as sampled, by the update, and by transformers;
and whether a request's tokens depend on the other requests of its batch.

    python -m benchmarks.agreement [--model FOLDER] [--sequences 1000]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gradus.policies.engine import Job, Sampled, generate
from gradus.policies.lm import LanguageModel
from gradus.policies.tiny import folder
from gradus.training.plan import load_task
from gradus.types import Context, Key, prompt_context
from gradus.types.signals import LogProb

TASKS = ("arithmetic", "countdown", "string_ops", "knights_knaves")


def jobs(model: LanguageModel, count: int, *, temperature: float = 1.0) -> list[Job]:
    """`count` jobs over the four text tasks, eight samples per problem."""
    made = []
    for number in range(count):
        task = load_task(TASKS[(number // 8) % len(TASKS)])
        problem = task.held_out.draw([number // 32], task.level, Key(0))[0]
        sampling = replace(task.sampling, temperature=temperature)
        made.append(Job(model.opening(problem.messages).tokens, sampling, Key(1).fold(number).value))
    return made


def run(model: LanguageModel, asked: list[Job]) -> list[Sampled]:
    return generate(model.trunk, asked, end_tokens=model.end_tokens, decode_text=model.text, max_context=model.context_length)


def contexts(asked: list[Job], sampled: list[Sampled]) -> list[Context]:
    prompts: dict[bytes, Context] = {}
    out = []
    for job, s in zip(asked, sampled, strict=True):
        prompt = prompts.setdefault(job.prefix.tobytes(), prompt_context(job.prefix))
        chosen = np.ones(len(s.tokens), dtype=bool)
        out.append(Context(tokens=s.tokens, chosen=chosen, logprobs=s.logprobs, temperature=job.sampling.temperature, parent=(prompt, len(job.prefix))))
    return out


def against_update(model: LanguageModel, made: list[Context]) -> float:
    """The largest difference of log-probabilities between sampling and the packed forward pass of the update."""
    worst = 0.0
    with torch.no_grad():
        for chosen in model.micro_batches(made, 16384):
            part = [made[i] for i in chosen]
            rows = model.evaluate(part, (LogProb(),))[LogProb()].numpy()
            worst = max(worst, float(np.abs(rows - np.concatenate([c.logprobs for c in part])).max()))
    return worst


def against_transformers(path: Path, made: list[Context]) -> float:
    """The same against transformers' own forward pass of each sequence alone."""
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    worst = 0.0
    with torch.no_grad():
        for context in made:
            sequence = torch.from_numpy(context.sequence.astype(np.int64))
            logp = torch.log_softmax(theirs(sequence[None]).logits[0].float() / context.temperature, -1).numpy()
            rows = logp[context.action_positions - 1, context.sequence[context.action_positions]]
            worst = max(worst, float(np.abs(rows - context.logprobs).max()))
    return worst


def company(model: LanguageModel, asked: list[Job]) -> int:
    """The number of requests whose result differs in any byte between one batch, another order, and alone."""
    together = run(model, asked)
    backwards = run(model, asked[::-1])[::-1]
    alone = [run(model, [job])[0] for job in asked]
    return sum(
        not (a.tokens.tobytes() == b.tokens.tobytes() == c.tokens.tobytes() and a.logprobs.tobytes() == b.logprobs.tobytes() == c.logprobs.tobytes())
        for a, b, c in zip(together, backwards, alone, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--sequences", type=int, default=1000)
    options = parser.parse_args()
    path = options.model or folder()
    model = LanguageModel.load(path)
    asked = jobs(model, options.sequences)
    made = contexts(asked, run(model, asked))
    ours, theirs = against_update(model, made), against_transformers(path, made)
    warm = jobs(model, 64, temperature=0.7)
    tempered = against_update(model, contexts(warm, run(model, warm)))
    different = company(model, asked[:: max(1, len(asked) // 200)][:200])
    print(f"rollout against update, {len(made)} sequences: {ours:.2e} (at temperature 0.7, 64 sequences: {tempered:.2e})")
    print(f"rollout against transformers: {theirs:.2e}")
    print(f"200 requests together, in reverse order, and alone: {different} differ")
    sys.exit(max(ours, theirs, tempered) >= 1e-4 or different > 0)


if __name__ == "__main__":
    main()
