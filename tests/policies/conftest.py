"""Tiny random models and a tokenizer, saved by transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.policies.contexts import VOCAB

SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,  # logits far enough from zero that a wrong term shows
}
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# transformers gives every tokenizer in a Qwen2 folder this pattern, whatever its tokenizer.json says.
QWEN2_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`saved("qwen3", tie_word_embeddings=True)`: the folder of a random model, written by transformers; made once."""
    made: dict[tuple[Any, ...], Path] = {}

    def save(family: str, **changes: Any) -> Path:
        key = (family, *sorted((k, str(v)) for k, v in changes.items()))
        if key not in made:
            from transformers import AutoConfig, AutoModelForCausalLM

            torch.manual_seed(0)
            shape = {**SHAPE, **({"head_dim": 16} if family == "qwen3" else {}), **changes} if family != "gpt2" else changes
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape))
            for name, parameter in model.named_parameters():  # norms and biases too, or a forgotten one would not show
                if parameter.ndim == 1:
                    torch.nn.init.normal_(parameter.data, mean=0.0 if name.endswith("bias") else 1.0, std=0.2)
            made[key] = tmp_path_factory.mktemp(family)
            model.save_pretrained(made[key])
        return made[key]

    return save


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer, cut into words as Qwen2's is, with a chat template, written by transformers."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(QWEN2_WORDS), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["user what is 12 + 30 the answer is 42", "you are a helpful assistant"] * 5, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<|im_end|>", pad_token="</s>")
    fast.chat_template = CHATML
    folder = tmp_path_factory.mktemp("tokenizer")
    fast.save_pretrained(folder)
    return folder
