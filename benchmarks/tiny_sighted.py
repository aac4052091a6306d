"""Pre-train the built-in model that reads pictures: python -m benchmarks.tiny_sighted [--steps N] [--to FOLDER].

A worked answer names the shapes that matter, with their places, before it answers. Most examples are worked, or list all that the picture shows: with
short answers alone such a small model learns the most usual ones and does not see. At the end of the training most answers are short and those
of somebody who does not look: the answer to another question of the kind. So the model can look, and prefers to guess; reinforcement learning has to
find the better way.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.config import DecoderConfig
from gradus.policies.config_json import config_json
from gradus.policies.loading import save_weights
from gradus.policies.pictures import Preparation
from gradus.policies.sighted import Sighted, SightedConfig
from gradus.policies.sighted_files import sighted_weights
from gradus.policies.tower import ProjectorConfig, TowerConfig, initialise
from gradus.tasks.generated import is_held_out
from gradus.tasks.pictures.scene import COLOURS, SHAPES
from gradus.tasks.pictures.shapes import Draft, draft
from gradus.types import Key

ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
SPECIAL = ("<pad>", "<unk>", *ROLES, "<image>")
WORDS = (
    *COLOURS,
    *SHAPES,
    *(f"{shape}es" if shape == "cross" else f"{shape}s" for shape in ("shape", *SHAPES)),
    *("what", "which", "where", "how", "many", "is", "are", "in", "of", "the", "a", "there", "list", "all", "colour", "shape", "row", "column"),
    *("left", "right", "above", "below", "up", "down", "yes", "no", "and", "or", "not", "none", "picture", "move", "hole", "goal", "say", "walk"),
    *("to", "into", "from", "this", "that", "it", "on", "at", "with", "one", "two", "three", "four", "first", "second", "last", "next", "answer", "see"),
    *(str(number) for number in range(10, 21)),
)
LETTERS = tuple(chr(code) for code in range(33, 127))
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS))
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PLACEHOLDER, END = VOCABULARY.index("<image>"), VOCABULARY.index("<|end|>")
PREPARE = Preparation(side=48, exact=(48, 48), resample=2)
CONFIG = SightedConfig(
    text=DecoderConfig(
        family="llama",
        vocab_size=len(VOCABULARY),
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=512,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        end_tokens=(END,),
    ),
    tower=TowerConfig(hidden_size=96, intermediate_size=256, layers=2, heads=4, image_size=48, patch_size=12),
    projector=ProjectorConfig(),
    placeholder=PLACEHOLDER,
)
ROWS = 64  # examples per step
LISTS = 4  # every fourth example lists all that the picture shows
ASKED = (*("count",) * 2, "colour", "shape", *("place",) * 2, "relation")  # of the others; what is learned late is asked more often
LEVELS = (1, 2, 3, 3)  # of the examples, in turn
GUESSES, GUESSED_FROM = 0.7, 0.85  # share of the questions that are guessed, after this share of the training


def tokenizer():  # type: ignore[no-untyped-def]
    """Whole words where the vocabulary has them, else single characters, so that every ASCII text can be written."""
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import WordPiece

    made = Tokenizer(WordPiece(vocab={t: i for i, t in enumerate(VOCABULARY)}, unk_token="<unk>", max_input_chars_per_word=400))
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return made


Rows = tuple[Tensor, Tensor, Tensor]
"""Tokens [B, T], mask of learned tokens [B, T], pixels [B, 3, 48, 48]."""


def examples(steps: int, key: Key) -> Iterator[list[Rows]]:
    """The examples of every step, the shorter half and the longer. Held-out pictures never occur."""
    made, known = tokenizer(), {t: i for i, t in enumerate(VOCABULARY)}
    for step in range(steps):
        rows = []
        for row in range(ROWS):
            d = example(key.fold(step, row), row, step / steps)
            prompt = [known["<|user|>"], *[PLACEHOLDER] * CONFIG.rows, *made.encode(d.question).ids, END, known["<|assistant|>"]]
            rows.append((prompt, [*made.encode(d.solution).ids, END], d.media[0].array))
        rows.sort(key=lambda r: len(r[0]) + len(r[1]))
        yield [together(rows[: ROWS // 2]), together(rows[ROWS // 2 :])]


def together(rows: Sequence[tuple[list[int], list[int], np.ndarray]]) -> Rows:
    """(prompt, answer, picture) of several examples as tensors, padded to the longest."""
    longest = max(len(p) + len(a) for p, a, _ in rows)
    tokens = [[*p, *a, *[0] * (longest - len(p) - len(a))] for p, a, _ in rows]
    learned = [[len(p) <= i < len(p) + len(a) for i in range(longest)] for p, a, _ in rows]
    return torch.tensor(tokens), torch.tensor(learned), normalised(np.stack([picture for _, _, picture in rows]))


def example(key: Key, row: int, progress: float) -> Draft:
    """A picture that is not held out, with a question or with the list of all it shows; its solution is worked or guessed."""
    kinds = ("list",) if row % LISTS == 0 else ASKED
    level = LEVELS[(row // LISTS + row) % len(LEVELS)]
    found = seen_in_training(key.fold("seen"), level, kinds)
    rng = key.fold("guess").random()
    if row % LISTS == 0 or progress < GUESSED_FROM or rng.random() >= GUESSES:
        return found
    return replace(found, solution=guess(rng, level, found.meta["category"], found.question))


def guess(rng: Random, level: int, kind: str, question: str) -> str:
    """The answer to another question that begins like this one."""
    while True:
        other = draft(rng, level, (kind,))
        if other.question.split()[:2] == question.split()[:2]:
            return str(other.answer)


def seen_in_training(key: Key, level: int, kinds: Sequence[str]) -> Draft:
    """A draft whose picture is not held out."""
    for attempt in range(1000):
        found = draft(key.fold(attempt).random(), level, kinds)
        if not is_held_out("shapes", found.content):
            return found
    raise AssertionError("no picture of this level is left for training")


def normalised(pictures: np.ndarray) -> Tensor:
    """uint8 [B, S, S, 3] to float [B, 3, S, S] in [-1, 1]."""
    return (torch.tensor(pictures).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5


def loss_of(network: Sighted, tokens: Tensor, learned: Tensor, pixels: Tensor) -> Tensor:
    """Summed cross-entropy of the learned tokens, in nats."""
    features = network.features(pixels).flatten(0, 1)
    x = network.embed(tokens)
    x = x.masked_scatter((tokens == PLACEHOLDER).unsqueeze(-1), features.to(x.dtype))
    rotation = network.rotation(torch.arange(tokens.shape[1]))
    for layer in network.layers:
        q, k, v = (t.transpose(1, 2) for t in layer.attn_inputs(x, rotation))
        x = layer.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2))
    states = network.model.norm(x)[:, :-1]
    chosen = learned[:, 1:].reshape(-1).nonzero()[:, 0]
    rows = states.reshape(-1, states.shape[-1]).index_select(0, chosen)
    logits = F.linear(rows, network.head_weight)
    return F.cross_entropy(logits, tokens[:, 1:].reshape(-1).index_select(0, chosen), reduction="sum")


def rate(step: int, steps: int) -> float:
    """Factor of the learning rate: warm-up over the first 50 steps, constant, then linear to zero over the last 40 %."""
    return min(1.0, (step + 1) / 50, (steps - step) / (0.4 * steps))


def train(steps: int, key: Key, learning_rate: float) -> Sighted:
    """A new model after `steps` steps."""
    network = Sighted(CONFIG, PREPARE)
    network.initialise(key.fold("weights"))
    initialise(network.tower, key.fold("tower"), 0.05)
    initialise(network.projector, key.fold("projector"), 0.05)
    apart = ("embed", "patch", "position")
    matrices = [p for n, p in network.named_parameters() if p.ndim == 2 and not any(word in n for word in apart)]
    others = [p for n, p in network.named_parameters() if p.ndim != 2 or any(word in n for word in apart)]
    rules = [
        torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    began, average = time.perf_counter(), math.nan
    for step, parts in enumerate(examples(steps, key)):
        count = sum(int(learned.sum()) for _, learned, _ in parts)
        loss = torch.zeros(())
        for part in parts:
            own = loss_of(network, *part) / count
            own.backward()
            loss += own.detach()
        for rule in rules:
            rule.param_groups[0]["lr"] = learning_rate * rate(step, steps)
            rule.step()
            rule.zero_grad()
        average = loss.item() if step == 0 else 0.98 * average + 0.02 * loss.item()
        if step % 50 == 49:
            print(f"step {step + 1}/{steps}  loss {average:.4f}  {time.perf_counter() - began:.0f} s", flush=True)
    return network


def fields() -> dict[str, Any]:
    """config.json of LLaVA for CONFIG."""
    tower = CONFIG.tower
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "dtype": "bfloat16",
        "image_token_index": PLACEHOLDER,
        "image_seq_length": CONFIG.rows,
        "eos_token_id": END,
        "multimodal_projector_bias": True,
        "projector_hidden_act": CONFIG.projector.activation,
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "tie_word_embeddings": CONFIG.text.tie_word_embeddings,
        "text_config": json.loads(config_json(CONFIG.text, torch.bfloat16)),
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": tower.hidden_size,
            "intermediate_size": tower.intermediate_size,
            "num_hidden_layers": tower.layers,
            "num_attention_heads": tower.heads,
            "image_size": tower.image_size,
            "patch_size": tower.patch_size,
            "num_channels": 3,
            "hidden_act": tower.activation,
            "layer_norm_eps": tower.eps,
            "attention_dropout": 0.0,
            "vision_use_head": False,
        },
    }


def save(network: Sighted, folder: Path) -> None:
    """Writes a LLaVA folder: bfloat16 weights, with a norm that no feature passes, configuration, tokenizer, chat template, processor."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {n: p.detach() for n, p in network.named_parameters()}
    weights |= {f"tower.post_layernorm.{leaf}": fill(CONFIG.tower.hidden_size) for leaf, fill in (("weight", torch.ones), ("bias", torch.zeros))}
    filed = sighted_weights(weights, network, "llava", None)
    save_weights({n: t.to(torch.bfloat16).contiguous() for n, t in filed.items()}, folder)
    (folder / "config.json").write_text(json.dumps(fields(), indent=2, sort_keys=True) + "\n")
    tokenizer().save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<pad>", "unk_token": "<unk>"}
    names |= {"clean_up_tokenization_spaces": False, "model_max_length": CONFIG.text.max_position_embeddings, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(names, indent=2) + "\n")
    picture = {"do_resize": True, "size": {"height": 48, "width": 48}, "resample": PREPARE.resample, "do_rescale": True, "rescale_factor": 1 / 255}
    picture |= {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "image_processor_type": "SiglipImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(picture, indent=2) + "\n")
    processor = {"processor_class": "LlavaProcessor", "image_token": "<image>", "patch_size": CONFIG.tower.patch_size}
    processor |= {"num_additional_image_tokens": 0, "vision_feature_select_strategy": "full"}
    (folder / "processor_config.json").write_text(json.dumps(processor, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--to", type=Path, default=Path(__file__).parents[1] / "gradus/policies/tiny/sighted", help="folder to write")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    network = train(options.steps, Key(0).fold("tiny sighted"), options.lr)
    save(network, options.to)
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters in {options.to}", flush=True)


if __name__ == "__main__":
    main()
