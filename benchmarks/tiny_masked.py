"""Pre-train the built-in masked model on 4 x 4 sudoku: python -m benchmarks.tiny_masked [--steps N] [--to FOLDER].

A share t of the 16 cells of the answer, t uniform in (0, 1), is hidden, and the model predicts the hidden cells. Held-out boards never occur.

The answers of the last third of the training have slips: each filled-in cell holds a wrong digit with probability 0.05. So the model knows how to
solve many boards and slips in most of them, and reinforcement learning has to find out that slips do not pay. A model that is stopped early
instead lacks the skill itself: 3,840 whole solutions taught one at pass@1 0.29 some 14 points at AdamW's rate of 1e-4, and a
reward says far less than a solution.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.tiny import ROLES, VOCABULARY, rate, tokenizer, write_tokenizer
from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.masked import Masked, MaskedConfig
from gradus.tasks.puzzles.sudoku4 import sudoku4
from gradus.types import Key

WORDS = (*VOCABULARY, "<mask>")
MASK = len(VOCABULARY)
CONFIG = MaskedConfig(
    decoder=DecoderConfig(
        family="llama",
        vocab_size=len(WORDS),
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=128,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        end_tokens=(VOCABULARY.index("<|end|>"),),
        causal=False,
    ),
    mask=MASK,
)
ROWS, CELLS = 64, 16  # boards per step, cells of an answer
LEVELS = (1, 2, 3, 3)  # of the boards, in turn
SLIPS_FROM, SLIPS = 2 / 3, 0.05  # share of the training after which answers have slips, and the share of the filled-in cells that have one


def with_slips(question: str, answer: str, rng: random.Random) -> str:
    """The answer with some digits of cells that are empty in the question replaced by another digit."""
    pairs = zip(question, answer, strict=True)
    return "".join(rng.choice([d for d in "1234" if d != digit]) if clue == "." and rng.random() < SLIPS else digit for clue, digit in pairs)


def boards(begin: int, steps: int, key: Key) -> Iterator[tuple[Tensor, Tensor]]:
    """(tokens [ROWS, T], whether a cell is hidden [ROWS, T]) of every step from `begin` on; the answer's cells are the last ones."""
    source, at = sudoku4().source, {t: i for i, t in enumerate(WORDS)}
    for step in range(begin, steps):
        rows, rng = [], random.Random(key.fold("slips", step).value)
        for row in range(ROWS):
            (problem,) = source.draw([step * ROWS + row], LEVELS[row % len(LEVELS)], key)
            asked = [at["<|user|>"], *(at[c] for c in problem.question), at["<|end|>"], at["<|assistant|>"]]
            answer = with_slips(problem.question, problem.answer, rng) if step >= SLIPS_FROM * steps else problem.answer
            rows.append([*asked, *(at[c] for c in answer)])
        tokens, draws = torch.tensor(rows), key.fold("masks", step)
        shares = (draws.permutation(ROWS)[:, None] + draws.fold("share").uniform(ROWS, 1)) / ROWS  # one from each 64th of (0, 1)
        hidden = torch.zeros_like(tokens, dtype=torch.bool)
        hidden[:, -CELLS:] = torch.from_numpy(draws.fold("cells").uniform(ROWS, CELLS) < shares)
        yield tokens, hidden


def loss_of(network: Decoder, tokens: Tensor, hidden: Tensor) -> Tensor:
    """Mean cross-entropy of the hidden cells, in nats."""
    logits = network(tokens.masked_fill(hidden, MASK))
    chosen = hidden.reshape(-1).nonzero()[:, 0]
    return F.cross_entropy(logits.flatten(0, 1).index_select(0, chosen), tokens.reshape(-1).index_select(0, chosen))


def train(begin: int, steps: int, key: Key, learning_rate: float, network: Decoder) -> Decoder:
    """Trains the model from step `begin` on."""
    matrices = [p for n, p in network.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in network.named_parameters() if p.ndim < 2 or "embed" in n]
    rules = [
        (torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"), learning_rate),
        (torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0), learning_rate),
    ]
    began, average = time.process_time(), math.nan
    for step, (tokens, hidden) in enumerate(boards(begin, steps, key), begin):
        loss = loss_of(network, tokens, hidden)
        loss.backward()
        for rule, peak in rules:
            rule.param_groups[0]["lr"] = peak * rate(step, steps, begin)
            rule.step()
            rule.zero_grad()
        average = loss.item() if step == begin else 0.95 * average + 0.05 * loss.item()
        if step % 25 == 24:
            print(f"step {step + 1}/{steps}  loss {average:.4f}  {time.process_time() - began:.0f} s", flush=True)
    return network


@torch.no_grad()
def accuracy(network: Decoder, level: int, count: int = 100) -> float:
    """The share of held-out boards that are solved greedily: at each of 16 steps the cell with the most probable digit is filled in."""
    at = {t: i for i, t in enumerate(WORDS)}
    problems = sudoku4().held_out.draw(range(count), level, Key(0))
    asked = [[at["<|user|>"], *(at[c] for c in p.question), at["<|end|>"], at["<|assistant|>"], *[MASK] * CELLS] for p in problems]
    tokens = torch.tensor(asked)
    for _ in range(CELLS):
        logits = network(tokens)[:, -CELLS:]
        logits[..., MASK] = -torch.inf
        best, digit = logits.log_softmax(-1).max(-1)
        cell = best.masked_fill(tokens[:, -CELLS:] != MASK, -torch.inf).argmax(-1)
        every = torch.arange(count)
        tokens[every, cell - CELLS + tokens.shape[1]] = digit[every, cell]
    said = ["".join(WORDS[t] for t in row) for row in tokens[:, -CELLS:].tolist()]
    return float(np.mean([s == p.answer for s, p in zip(said, problems, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--begin", type=int, default=0, help="go on from this step with the weights of --model")
    parser.add_argument("--model", type=Path, help="a folder of a masked model, for --begin")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--to", type=Path, default=Path(__file__).parents[1] / "gradus/policies/tiny/masked")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    key = Key(0).fold("tiny", "masked")
    first = Masked.load(options.model).network if options.model else Decoder(CONFIG.decoder).initialise(key.fold("weights"))
    network = train(options.begin, options.steps, key, options.lr, first)
    Masked(CONFIG, network.to(torch.bfloat16)).save(options.to)
    write_tokenizer(options.to, tokenizer(WORDS, ("<pad>", "<unk>", *ROLES, "<mask>")))
    solved = ", ".join(f"level {level}: {accuracy(network.float(), level):.2f}" for level in (1, 2, 3))
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters in {options.to}; solved greedily at {solved}", flush=True)


if __name__ == "__main__":
    main()
