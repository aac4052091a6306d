"""Servers in a thread of this process, over the built-in model and over a random model of bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from gradus.policies.lm import LanguageModel
from gradus.policies.tiny import folder
from gradus.serving.server import address, listening, make_server

WORDS = ["user what is 12 + 30 the answer is 42", "grüße €uro 東京 𝄞 naïve", "you are a helpful assistant"]
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


@dataclass(frozen=True)
class Address:
    """A running server: its address with /v1, its model and that model's name."""

    url: str
    model: Any
    name: str
    server: Any

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")


@contextmanager
def running(model: Any, name: str, **how: Any) -> Iterator[Address]:
    ready = threading.Event()
    with listening("127.0.0.1", 0) as opened:
        server = make_server(model, name, ready=ready.set, **how)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            assert ready.wait(60)
            yield Address(address(opened), model, name, server)
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until it holds; a test that waits for ever is ended by its time limit."""
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never held")


@pytest.fixture(scope="session")
def tiny() -> LanguageModel:
    torch.set_num_threads(1)
    return LanguageModel.load(folder())


@pytest.fixture(scope="session")
def served(tiny: LanguageModel) -> Iterator[Address]:
    with running(tiny, "tiny") as address:
        yield address


@pytest.fixture(scope="session")
def bytes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama over a byte-level tokenizer with a few merges: most of its tokens are halves of characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=280, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(WORDS, trainer)
    path = tmp_path_factory.mktemp("bytes") / "bytes"
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE).save_pretrained(path)
    torch.manual_seed(0)
    shape = {"vocab_size": 280, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(**shape, num_key_value_heads=2, max_position_embeddings=256, eos_token_id=1, initializer_range=0.3)
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def of_bytes(bytes_folder: Path) -> Iterator[Address]:
    with running(LanguageModel.load(bytes_folder), "bytes") as address:
        yield address
