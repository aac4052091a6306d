"""Language models of five sizes for the benchmark of learning rates: python -m benchmarks.rates_models --to FOLDER [--sizes 0.3M,1M].

They are trained on the sentences of installed packages' docstrings, half as plain text and half as dialogues (the user gives the first words, the
assistant the rest). Each size has two folders with equal weights: NAME-plain without a chat template, NAME-chat with one.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

STANDARD = ("pydoc_data", "asyncio", "email", "unittest", "multiprocessing", "logging", "importlib", "http", "json", "xml")
PACKAGES = ("torch", "transformers", "sklearn", "scipy", "pandas", "sympy", "numpy", "matplotlib", "datasets", "networkx")
SPECIAL = ("<pad>", "<end>", "<user>", "<assistant>")
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
VOCABULARY, ROWS, ROW = 2048, 16, 256  # tokens; rows per step, tokens per row


@dataclass(frozen=True)
class Size:
    width: int
    inner: int
    layers: int
    steps: int
    grown: str | None = None  # the smaller model that it begins from: same width, more layers


SIZES = {
    "0.3M": Size(64, 176, 3, 700),
    "1M": Size(128, 352, 4, 500),
    "4M": Size(256, 704, 5, 220),
    "11M": Size(384, 1024, 6, 150),
    "33M": Size(384, 1024, 18, 20, grown="11M"),
}


def sentences() -> list[str]:
    """The English sentences of 4 to 25 words in docstrings of the standard library and of installed packages, once each, in a fixed order."""
    library, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    found: dict[str, None] = {}
    for root in (*(library / name for name in STANDARD), *(packages / name for name in PACKAGES)):
        for file in sorted(root.rglob("*.py")):
            for quoted in re.findall(r'"""(.*?)"""', file.read_text(errors="ignore"), re.DOTALL):
                for paragraph in re.split(r"\n\s*\n", quoted):
                    for sentence in re.split(r"(?<=\.) (?=[A-Z])", " ".join(paragraph.split())):
                        if re.fullmatch(r"[A-Z][a-z]*(?:[ ,;] ?[a-zA-Z'-]+){3,24}\.", sentence):
                            found.setdefault(sentence)
    ordered = list(found)
    random.Random(0).shuffle(ordered)
    return ordered


def tokenizer_of(texts: Sequence[str], folder: Path) -> Any:
    """A byte-level BPE tokenizer of the texts."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [AddedToken(t, special=True, normalized=False) for t in SPECIAL]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet))
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<pad>")
    fast.save_pretrained(folder)
    return fast


def rows(texts: Sequence[str], tokenizer: Any, seed: int = 0) -> Iterator[Tensor]:
    """Endless batches [ROWS, ROW] of packed sentences, plain and as dialogues by turns of a coin."""
    coin = random.Random(seed)
    end, user, assistant = (tokenizer.convert_tokens_to_ids(t) for t in SPECIAL[1:])
    waiting: list[int] = []
    while True:
        for text in coin.sample(texts, len(texts)):
            if coin.random() < 0.5:
                waiting += [*tokenizer(text).input_ids, end]
            else:
                words = text.split(" ")
                cut = coin.randint(1, min(4, len(words) - 1))
                said, rest = (tokenizer(" ".join(part)).input_ids for part in (words[:cut], words[cut:]))
                waiting += [user, *said, end, assistant, *rest, end]
            if len(waiting) >= ROWS * ROW:
                yield torch.tensor(waiting[: ROWS * ROW]).view(ROWS, ROW)
                waiting = waiting[ROWS * ROW :]


def begun(size: Size, folder: Path) -> Any:
    """A Llama decoder before training: random, or a smaller model with new layers that add 0 to the residual stream."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    heads = size.width // 32 if size.width < 512 else size.width // 64
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=size.width, intermediate_size=size.inner, num_hidden_layers=size.layers, num_attention_heads=heads,
        num_key_value_heads=heads, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=1, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    if size.grown is not None:
        small = LlamaForCausalLM.from_pretrained(folder / f"{size.grown}-plain")
        every = size.layers // small.config.num_hidden_layers
        model.model.embed_tokens.load_state_dict(small.model.embed_tokens.state_dict())
        model.model.norm.load_state_dict(small.model.norm.state_dict())
        for index, layer in enumerate(model.model.layers):
            if index % every == 0:
                layer.load_state_dict(small.model.layers[index // every].state_dict())
            else:
                torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
                torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return model


def train(model: Any, steps: int, batches: Iterator[Tensor], rate: float = 3e-3) -> None:
    """Language modelling: Muon for matrices, AdamW for the rest, products in bfloat16."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim < 2 or "embed" in n]
    rules = (
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
    )
    began, average = time.perf_counter(), None
    for step, tokens in zip(range(steps), batches, strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for rule in rules:
            rule.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 20, (steps - step) / (0.4 * steps))
            rule.step()
            rule.zero_grad()
        average = loss.item() if average is None else 0.9 * average + 0.1 * loss.item()
        if step % 5 == 4:
            print(f"  step {step + 1}/{steps}  loss {average:.3f}  {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--sizes", default=",".join(SIZES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = sentences()
    print(f"{len(texts):,} sentences, {sum(map(len, texts)):,} characters", flush=True)
    tokenizer = tokenizer_of(texts, options.to / "tokenizer")
    for name in options.sizes.split(","):
        if (options.to / f"{name}-chat").exists():
            continue
        model = begun(SIZES[name], options.to)
        train(model, SIZES[name].steps, rows(texts, tokenizer))
        for kind, template in (("plain", None), ("chat", TEMPLATE)):
            unfinished = options.to / f"{name}-{kind}.partial"
            tokenizer.chat_template = template
            model.save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
            shutil.move(unfinished, options.to / f"{name}-{kind}")
        print(f"{name}: {model.num_parameters():,} parameters", flush=True)


if __name__ == "__main__":
    main()
