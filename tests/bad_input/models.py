"""Models and devices that cannot be used."""

from __future__ import annotations

import torch

from tests import broken
from tests.bad_input.row import Row

SHAPES = "train grpo --task shapes --model m --run run"

MODELS: list[Row] = [
    (SHAPES, 'shows pictures, but the model "m" reads text|name a model that reads pictures with --model', {"m": broken.model()}),
    (SHAPES, 'model folder "m" has no preprocessor_config.json|save_pretrained', {"m": broken.sighted(preprocessor_config__json=None, processor_config__json=None)}),
    (SHAPES, "tensor vision_tower|missing from its safetensors files", {"m": broken.sighted(model__safetensors=broken.without_a_tower)}),
    (SHAPES, "`vision_feature_layer` is 9, but the tower has 2 layers", {"m": broken.sighted(config__json=broken.fields(vision_feature_layer=9))}),
    (
        SHAPES,
        "a prepared picture is 24 x 24 pixels, but the tower takes 48 x 48|set `size` or `crop_size` in preprocessor_config.json",
        {"m": broken.sighted(preprocessor_config__json=broken.fields(size={"height": 24, "width": 24}))},
    ),
    (SHAPES, "`image_mean` is 0.5; it must be three numbers", {"m": broken.sighted(preprocessor_config__json=broken.fields(image_mean=0.5))}),
    ("train papo --task arithmetic --run run", "recipe papo needs problems with images, which task arithmetic does not provide"),
    ("train grpo --task shapes --task.kinds color --run run", 'unknown kind of shapes "color" (did you mean colour?)'),
    (
        "{train} --model Qwen/Qwen2.5-0.5B",
        'no folder "Qwen/Qwen2.5-0.5B"|hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B, then give Qwen2.5-0.5B in place of the name',
    ),
    ("{train} --model {home}/problems.jsonl", 'problems.jsonl" is a file; give the folder with config.json'),
    ("{train} --model m", 'model folder "m" has no model.safetensors; give a folder', {"m": broken.model(model__safetensors=None)}),
    ("{train} --model gone", 'model folder "gone" does not exist; give a folder'),
    ("{train} --model m", 'model "m" is a file; give the folder', {"m": "weights"}),
    ("{train} --model m", 'model folder "m" has no config.json; give a folder', {"m/notes.txt": "nothing"}),
    ("{train} --model m", "m/pytorch_model.bin contains pickled weights|save the model as safetensors", {"m": broken.pickled}),
    ("{train} --model m", "m/model.safetensors is not a complete safetensors file|copy", {"m": broken.model(model__safetensors=broken.cut)}),
    ("{train} --model m", "tensor model.norm.weight contains NaN", {"m": broken.model(model__safetensors=broken.not_a_number)}),
    ("{train} --model m", "m/config.json, line 1, column 2: not valid JSON|save", {"m": broken.model(config__json="{")}),
    ("{train} --model m", "m/config.json contains a list", {"m": broken.model(config__json="[]")}),
    ("{train} --model m", 'model folder "m"|`nonsense`', {"m": broken.model(config__json=broken.fields(model_type="nonsense"))}),
    ("{train} --model m", "m/config.json: `hidden_size` is -1|positive", {"m": broken.model(config__json=broken.fields(hidden_size=-1))}),
    (
        "{train} --model m",
        "`layer_types` has 2 entries|`num_hidden_layers` is 3",
        {"m": broken.model(config__json=broken.fields(num_hidden_layers=3))},
    ),
    ("{train} --model m", "[98, 32], but config.json requires [50, 32]", {"m": broken.model(config__json=broken.fields(vocab_size=50))}),
    ("{train} --model m", 'model folder "m" has no tokenizer.json; save the tokenizer', {"m": broken.model(tokenizer__json=None)}),
    ("{train} --model m", "m/tokenizer.json cannot be read|save", {"m": broken.model(tokenizer__json=broken.cut)}),
    ("{train} --model m --task.prompt chat", "chat template, line 1|fix `chat_template`", {"m": broken.model(chat_template__jinja="{% for m in")}),
    ("{train} --model gpt2", "for a model of the Hugging Face Hub, fetch it first: hf download gpt2 --local-dir gpt2|then start again"),
    ("{train} --model m", "m/adapter_config.json: `base_model_name_or_path`|set it", {"m/adapter_config.json": "{}"}),
    ("{train} --players.reference.model gone", 'model folder "gone" does not exist'),
]
if not torch.cuda.is_available():
    MODELS += [("{train} --device cuda", "--device is cuda, which PyTorch cannot use here|use --device cpu")]
