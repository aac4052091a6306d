"""A small random language model in a folder, with a character tokenizer and a chat template, for tests of runs and of the command line."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from pathlib import Path

TEMPLATE = "{% for m in messages %}{{ m.content }}>{% endfor %}"


def save_small_model(folder: Path, seed: int = 0) -> Path:
    """A copy in `folder` of a Qwen2 decoder with two layers of width 32 over printable ASCII; it is made once per process and seed."""
    shutil.copytree(_made(seed).name, folder, dirs_exist_ok=True)
    return folder


@functools.cache
def _made(seed: int) -> tempfile.TemporaryDirectory[str]:
    """The folder of the first copy; it is removed when the process ends."""
    kept = tempfile.TemporaryDirectory(prefix="gradus-small-model-")
    _save(Path(kept.name), seed)
    return kept


def _save(folder: Path, seed: int) -> None:
    import torch
    from tokenizers import Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    characters = ["<pad>", "<eos>", "\n", *map(chr, range(32, 127))]
    tokenizer = Tokenizer(WordLevel({c: i for i, c in enumerate(characters)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = Split("", "isolated")
    tokenizer.decoder = Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", chat_template=TEMPLATE)
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(characters),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        eos_token_id=1,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "qwen2"
