"""Pre-train the built-in models: python -m benchmarks.tiny [--models base,puzzles] [--steps N] [--to FOLDER].

With --begin N the weights in --start are trained from step N on, with problems that were not drawn before.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.tiny_corpus import CORPORA, Dialogue, Share, example
from gradus.policies.config import DecoderConfig
from gradus.policies.config_json import config_json
from gradus.policies.decoder import Decoder
from gradus.policies.lm import LanguageModel
from gradus.policies.loading import save_weights, state_dict
from gradus.types import Key

ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
VOCABULARY = ("<pad>", "<unk>", *ROLES, "\n", *map(chr, range(32, 127)))
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONFIG = DecoderConfig(
    family="llama",
    vocab_size=len(VOCABULARY),
    hidden_size=160,
    intermediate_size=384,
    num_hidden_layers=4,
    num_attention_heads=5,
    num_key_value_heads=5,
    head_dim=32,
    max_position_embeddings=512,
    rope_theta=10000.0,
    tie_word_embeddings=True,
    end_tokens=(VOCABULARY.index("<|end|>"),),
)
ROW, ROWS = 256, 16  # tokens per row of packed examples, rows per step


def tokenizer(words=VOCABULARY, special=("<pad>", "<unk>", *ROLES)):  # type: ignore[no-untyped-def]
    """A tokenizer with one token per character, one per role, and one for the end of a message."""
    from tokenizers import AddedToken, Tokenizer, decoders
    from tokenizers.models import BPE

    made = Tokenizer(BPE(vocab={t: i for i, t in enumerate(words)}, merges=[], unk_token="<unk>"))
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    made.decoder = decoders.Fuse()
    return made


def write_tokenizer(folder: Path, made=None) -> None:  # type: ignore[no-untyped-def]
    """Writes tokenizer.json (`made`; None: that of the language models), its configuration and the chat template."""
    (made or tokenizer()).save(str(folder / "tokenizer.json"))
    fields = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONFIG.max_position_embeddings,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(fields, indent=2) + "\n")


def encode(dialogue: Dialogue) -> tuple[list[int], list[bool]]:
    """Tokens of a dialogue in the chat template, and the mask of the learned ones: those of the assistant with the end of its turns."""
    at = {t: i for i, t in enumerate(VOCABULARY)}
    tokens: list[int] = []
    learned: list[bool] = []
    for said, answer in dialogue:
        asked = [at["<|user|>"], *(at[c] for c in said), at["<|end|>"], at["<|assistant|>"]]
        given = [*(at[c] for c in answer), at["<|end|>"]]
        tokens += asked + given
        learned += [False] * len(asked) + [True] * len(given)
    return tokens, learned


def batches(shares: tuple[Share, ...], steps: int, key: Key, begin: int = 0) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(tokens [ROWS, ROW], ids of the dialogues [ROWS, ROW], mask of learned tokens [ROWS, ROW]) of every step from `begin` on.

    No dialogue crosses a row; a dialogue longer than a row is left out.
    """
    index = 0
    waiting: tuple[list[int], list[bool]] | None = None
    for step in range(begin, steps):
        tokens = np.zeros((ROWS, ROW), np.int64)
        document = np.full((ROWS, ROW), -1)
        learned = np.zeros((ROWS, ROW), bool)
        for row in range(ROWS):
            at = n = 0
            while True:
                if waiting is None:
                    waiting, index = encode(example(shares, index, step / steps, key)), index + 1
                end = at + len(waiting[0])
                if end > ROW and len(waiting[0]) <= ROW:
                    break  # it opens the next row
                if end <= ROW:
                    tokens[row, at:end], learned[row, at:end], document[row, at:end] = *waiting, n
                    at, n = end, n + 1
                waiting = None
        yield torch.from_numpy(tokens), torch.from_numpy(document), torch.from_numpy(learned)


def hidden(network: Decoder, tokens: Tensor, document: Tensor) -> Tensor:
    """Hidden states of packed rows; a token attends to itself and the earlier tokens of its own example."""
    causal = torch.ones(ROW, ROW, dtype=torch.bool).tril()
    mask = (document[:, None, :, None] == document[:, None, None, :]) & causal
    rotation = network.rotation(torch.arange(ROW))
    x = network.embed(tokens)
    for layer in network.layers:
        q, k, v = (t.transpose(1, 2) for t in layer.attn_inputs(x, rotation))
        x = layer.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2))
    return network.model.norm(x)


def loss_of(network: Decoder, tokens: Tensor, document: Tensor, learned: Tensor) -> Tensor:
    """Mean cross-entropy of the learned tokens, in nats."""
    states = hidden(network, tokens, document)[:, :-1]
    chosen = learned[:, 1:].reshape(-1).nonzero()[:, 0]
    rows = states.reshape(-1, CONFIG.hidden_size).index_select(0, chosen)
    targets = tokens[:, 1:].reshape(-1).index_select(0, chosen)
    return F.cross_entropy(F.linear(rows, network.head_weight), targets)


def rate(step: int, steps: int, begin: int = 0) -> float:
    """Factor of the learning rate: warm-up over the first 50 steps, constant, then linear to zero over the last 40 %."""
    return min(1.0, (step - begin + 1) / 50, (steps - step) / (0.4 * steps))


def train(shares: tuple[Share, ...], steps: int, key: Key, learning_rate: float, network: Decoder | None = None, begin: int = 0) -> Decoder:
    """Trains a new model, or `network` from step `begin` on."""
    network = Decoder(CONFIG).initialise(key.fold("weights")) if network is None else network
    matrices = [p for n, p in network.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in network.named_parameters() if p.ndim < 2 or "embed" in n]
    rules = [
        (torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"), learning_rate),
        (torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0), learning_rate),
    ]
    began, average = time.perf_counter(), math.nan
    for step, (tokens, document, learned) in enumerate(batches(shares, steps, key, begin), begin):
        loss = loss_of(network, tokens, document, learned)
        loss.backward()
        for rule, peak in rules:
            rule.param_groups[0]["lr"] = peak * rate(step, steps, begin)
            rule.step()
            rule.zero_grad()
        average = loss.item() if step == begin else 0.98 * average + 0.02 * loss.item()
        if step % 50 == 49:
            print(f"step {step + 1}/{steps}  loss {average:.4f}  {time.perf_counter() - began:.0f} s", flush=True)
    return network


def save(network: Decoder, folder: Path) -> None:
    """Writes bfloat16 weights, configuration, tokenizer and chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    save_weights({n: t.to(torch.bfloat16) for n, t in state_dict(network).items()}, folder)
    (folder / "config.json").write_text(config_json(CONFIG, torch.bfloat16))
    write_tokenizer(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", default=",".join(CORPORA), help=f"some of {', '.join(CORPORA)}")
    made = Path(__file__).parents[1] / "gradus/policies/tiny"
    parser.add_argument("--begin", type=int, default=0, help="continue from this step with the weights in --start")
    parser.add_argument("--start", type=Path, default=made, help="folder of the models' folders to continue from")
    parser.add_argument("--to", type=Path, default=made, help="folder of the models' folders to write")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.models.split(","):
        key = Key(0).fold("tiny") if name == "base" else Key(0).fold("tiny", name)
        start = None
        if options.begin:
            key, start = key.fold("begin", options.begin), LanguageModel.load(str(options.start / name), dtype=torch.float32).network
        network = train(CORPORA[name](), options.steps, key, options.lr, start, options.begin)
        save(network, options.to / name)
        print(f"{sum(p.numel() for p in network.parameters()):,} parameters in {options.to / name}", flush=True)


if __name__ == "__main__":
    main()
