"""The engine's arithmetic: the same maths as the decoder's, and activations whose bits do not hang on a row's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gradus.policies.decoder import Decoder, RMSNorm
from gradus.policies.decoding import Fused, normed, padded
from gradus.policies.fused import compiled
from gradus.policies.loading import load_decoder
from gradus.policies.lora import LoRA, adapt, adapters
from gradus.types import Key


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_prompts_and_steps_give_the_logits_of_the_decoder(family: str, saved: Callable[..., Path]):
    decoder = load_decoder(saved(family))
    prefixes = [np.arange(3, 3 + n, dtype=np.int32) for n in (1, 20, 32)]
    with torch.inference_mode():
        compare(decoder, prefixes)


def test_an_adapter_is_part_of_the_weights(saved: Callable[..., Path]):
    plain = load_decoder(saved("llama"))
    adapted = adapt(plain, LoRA(rank=2), Key(1))
    with torch.no_grad():
        for _, layer in adapters(adapted):
            layer.lora_B.normal_(generator=torch.Generator().manual_seed(1), std=0.1)
    prefixes = [np.arange(3, 20, dtype=np.int32)]
    with torch.inference_mode():
        compare(adapted, prefixes)
        [changed], [unchanged] = Fused(adapted, 32).read(prefixes), Fused(plain, 32).read(prefixes)
    assert (changed.logits - unchanged.logits).abs().max() > 0.1


def compare(decoder: Decoder, prefixes: list[np.ndarray]) -> None:
    fused = Fused(decoder, 64)
    slots = fused.slots(8, 64)
    for slot, (prefix, prompt) in enumerate(zip(prefixes, fused.read(prefixes), strict=True)):
        assert torch.allclose(prompt.logits, decoder(torch.from_numpy(prefix.astype(np.int64))[None])[0, -1], atol=1e-5)
        slots.fill(slot, prompt.kv)
    added = [[5, 6, 7][slot % 3] for slot in range(8)]
    positions = torch.tensor([*map(len, prefixes), *[0] * (8 - len(prefixes))])
    logits = fused.step(slots, torch.tensor(added), positions, [(0, 8, 64)])
    for slot, prefix in enumerate(prefixes):
        expected = decoder(torch.tensor([[*prefix.tolist(), added[slot]]]))[0, -1]
        assert torch.allclose(logits[slot], expected, atol=1e-5)


def test_norm_is_the_decoders():
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        for offset in (False, True):
            norm = RMSNorm(24, 1e-5, offset).to(dtype)
            norm.weight.data.normal_()
            x = torch.randn(5, 24).to(dtype)
            if compiled(x):  # another order of summing
                torch.testing.assert_close(normed(x, norm.factor, 1e-5), norm(x), atol=1e-6, rtol=1e-6)
            else:
                assert torch.equal(normed(x, norm.factor, 1e-5), norm(x))


def test_prompt_lengths_are_rounded_up():
    assert [padded(n) for n in (1, 32, 33, 64)] == [32, 32, 64, 64]
