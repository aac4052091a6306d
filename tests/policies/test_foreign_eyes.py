"""Vision-language models that the built-in decoder does not implement run through transformers, with the field named."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies.foreign_eyes import ForeignEyes
from gradus.policies.lm import LanguageModel
from gradus.types import Key, Sampling
from gradus.types.signals import LogProb
from tests.policies.test_sighted import Ask, answered
from tests.policies.vision_models import folder, inner, picture, says

PROCESSOR = {"processor_class": "LlavaProcessor", "patch_size": 4, "num_additional_image_tokens": 1, "image_token": "<image>"}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """LLaVA with a layer that is named in a list, which transformers takes and the built-in decoder does not."""
    path = folder("llava-clip", tmp_path_factory.mktemp("foreign"))
    fields = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**fields, "vision_feature_layer": [-2]}))
    (path / "processor_config.json").write_text(json.dumps({**PROCESSOR, "vision_feature_select_strategy": "default"}))
    return LanguageModel.load(path)


def test_it_gives_what_the_built_in_decoder_gives(foreign, tmp_path):
    assert isinstance(foreign.trunk, ForeignEyes)
    assert "vision_feature_layer = [-2]" in foreign.note
    own = LanguageModel.load(folder("llava-clip", tmp_path))
    messages = [says("what is here", picture(1, 20, 16), picture(2)), says("one", role="assistant"), says("and this", picture(3))]
    theirs, ours = foreign.opening(messages), own.opening(messages)
    assert theirs.tokens.tolist() == ours.tokens.tolist()
    assert theirs.beginning(len(theirs.tokens)) == ours.beginning(len(ours.tokens))
    with torch.no_grad():
        found = [m.evaluate([answered(p, [20, 21]), answered(p, [4])], [LogProb()])[LogProb()] for m, p in ((foreign, theirs), (own, ours))]
    assert_close(*found, atol=1e-4, rtol=0)
    text = [says("what is here")]
    with torch.no_grad():
        plain = [m.evaluate([answered(m.opening(text), [20, 21])], [LogProb()])[LogProb()] for m in (foreign, own)]
    assert_close(*plain, atol=1e-4, rtol=0)


def test_rollout_equals_update(foreign):
    prompt = foreign.opening([says("what is here", picture(5))])
    drawn = foreign.act([Ask(prompt, len(prompt.sequence), Sampling(max_tokens=6), Key(i)) for i in range(2)])
    found = foreign.evaluate(drawn, [LogProb()])[LogProb()]
    assert_close(torch.from_numpy(np.concatenate([c.logprobs for c in drawn])), found.detach(), atol=1e-4, rtol=0)
    found.sum().backward()
    assert any("vision_tower" in n and p.grad is not None and p.grad.abs().max() > 0 for n, p in foreign.trunk.named_parameters())


def test_it_is_saved_with_its_processor(foreign, tmp_path):
    foreign.save(tmp_path)
    again = LanguageModel.load(tmp_path)
    context = answered(foreign.opening([says("what is here", picture(5))]), [20])
    with torch.no_grad():
        assert_close(*(m.evaluate([context], [LogProb()])[LogProb()] for m in (foreign, again)), atol=1e-6, rtol=0)


def test_fields_that_are_not_implemented_are_named(tmp_path):
    from gradus.policies.fields import Unsupported
    from gradus.policies.sighted_config import sighted_config

    inner("llava-siglip").config.save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    wrong = [
        ({"model_type": "qwen2_5_vl"}, "model_type"),
        ({"surprise": 1}, "surprise"),
        ({"vision_feature_select_strategy": "other"}, "vision_feature_select_strategy"),
        ({"projector_hidden_act": "tanh"}, "projector_hidden_act"),
        ({"vision_config": {**fields["vision_config"], "num_channels": 4}}, "vision_config.num_channels"),
        ({"vision_config": {**fields["vision_config"], "model_type": "dinov2"}}, "vision_config.model_type"),
        ({"text_config": {**fields["text_config"], "model_type": "mamba"}}, "text_config.model_type"),
    ]
    assert sighted_config(fields).rows == 16
    for change, name in wrong:
        with pytest.raises(Unsupported) as raised:
            sighted_config({**fields, **change})
        assert raised.value.field == name
