"""Small random vision-language models of transformers in folders, with a tokenizer and the fields of a picture processor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradus.types.media import Media

WORDS = ("look", "at", "this", "and", "tell", "me", "what", "is", "here", "red", "blue", "one", "two", "three", "there", "no", "yes")
SPECIAL = ("<pad>", "<unk>", "<|user|>", "<|assistant|>", "<|end|>", "<image>", "<fake_token_around_image>", "<global-img>")
PLACES = tuple(f"<row_{r}_col_{c}>" for r in range(1, 4) for c in range(1, 4))
VOCABULARY = (*SPECIAL, *PLACES, "\n", *WORDS)
IMAGE, END = VOCABULARY.index("<image>"), VOCABULARY.index("<|end|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 16, "patch_size": 4}
_TEXT = {
    **{"vocab_size": len(VOCABULARY), "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "max_position_embeddings": 256, "eos_token_id": END, "bos_token_id": None, "pad_token_id": 0},
}
_PLAIN = {"do_resize": True, "size": {"height": 16, "width": 16}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_CLIP = {
    **{"do_resize": True, "size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}, "resample": 3},
    **{"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "image_processor_type": "CLIPImageProcessor"},
}
_SPLIT = {"size": {"longest_edge": 48}, "max_image_size": {"longest_edge": 16}, "do_image_splitting": True, "resample": 1}


def inner(kind: str) -> Any:
    """The model of transformers: llava-siglip, llava-clip, smolvlm or idefics3. Its weights are the same at every call."""
    import transformers as t

    torch.manual_seed(0)
    text = t.LlamaConfig(**_TEXT)
    if kind.startswith("llava"):
        siglip = kind == "llava-siglip"
        vision: Any = t.SiglipVisionConfig(**_SMALL) if siglip else t.CLIPVisionConfig(**_SMALL)
        config: Any = t.LlavaConfig(
            vision_config=vision,
            text_config=text,
            image_token_index=IMAGE,
            vision_feature_layer=-1 if siglip else -2,
            vision_feature_select_strategy="full" if siglip else "default",
        )
        model: Any = t.LlavaForConditionalGeneration(config)
    elif kind == "smolvlm":
        config = t.SmolVLMConfig(vision_config=t.SmolVLMVisionConfig(**_SMALL), text_config=text, image_token_id=IMAGE, scale_factor=2)
        model = t.SmolVLMForConditionalGeneration(config)
    else:
        config = t.Idefics3Config(vision_config=t.Idefics3VisionConfig(**_SMALL), text_config=text, image_token_id=IMAGE, scale_factor=2)
        model = t.Idefics3ForConditionalGeneration(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than the initial weights, so that a wrong bias or position shows
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def folder(kind: str, path: Path) -> Path:
    """A model folder with tokenizer and preprocessor_config.json."""
    inner(kind).save_pretrained(path)
    write_tokenizer(path)
    fields = {"llava-siglip": _PLAIN, "llava-clip": _CLIP}.get(kind, _SPLIT)
    (path / "preprocessor_config.json").write_text(json.dumps(fields))
    return path


def write_tokenizer(path: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import WordLevel

    made = Tokenizer(WordLevel({t: i for i, t in enumerate(VOCABULARY)}, unk_token="<unk>"))
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (*SPECIAL, *PLACES)])
    made.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    made.decoder = decoders.Fuse()
    made.save(str(path / "tokenizer.json"))
    fields = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<pad>", "unk_token": "<unk>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(fields))


def picture(seed: int, height: int = 16, width: int = 16) -> Media:
    return Media("image", np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def says(text: str, *pictures: Media, role: str = "user") -> dict[str, Any]:
    """A message that shows the pictures before its text."""
    return {"role": role, "content": (*({"type": "image", "media": media} for media in pictures), {"type": "text", "text": text})}
