"""A reward model as a sequence classifier of transformers: equal scores, several heads, padding, and models that do not fit."""

from __future__ import annotations

import json

import pytest
import torch

from gradus.policies.heads import Heads, save_head
from gradus.policies.lm import LanguageModel
from gradus.policies.tiny import folder
from gradus.training.classifier import write_classifier
from gradus.types import Key, UserError, prompt_context
from gradus.types.contexts import told_context
from gradus.types.signals import Value


def reward_model(target, outputs=("value",), **form):
    model = LanguageModel.load(folder())
    head = Heads(model.trunk.config.hidden_size, Key(3), outputs, **{"bias": False, **form})
    head.weight.data *= 100
    model = model.with_value_head(Key(3), shared=False)
    made = LanguageModel(model.trunk, model.tokenizer, model.end_tokens, model.folder, head)
    made.save(target)
    return made


def scores(model, prompt, answer, name):
    """The head's output before the end token, which follows the answer."""
    context = prompt_context(prompt).then(told_context([*answer, model.end_tokens[0]]))
    return float(model.evaluate([context], (Value(name),))[Value(name)][-1].detach())


@pytest.mark.parametrize("outputs", [("value",), ("tone", "safe")])
def test_transformers_gives_the_same_scores(tmp_path, outputs):
    from transformers import AutoModelForSequenceClassification

    mine = reward_model(tmp_path / "run", outputs)
    write_classifier(tmp_path / "run", tmp_path / "out")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    assert [theirs.config.id2label[i] for i in range(len(outputs))] == list(outputs)
    asked = [([2, 30, 31, 6, 3], [40, 41, 42]), ([2, 33, 6, 3], [50])]
    wanted = torch.tensor([[scores(mine, p, a, name) for name in outputs] for p, a in asked])
    assert wanted.abs().min() > 1e-3
    longest, pad = max(len(p) + len(a) for p, a in asked) + 1, theirs.config.pad_token_id
    assert pad == mine.end_tokens[0]
    rows = torch.tensor([[*p, *a] + [pad] * (longest - len(p) - len(a)) for p, a in asked])  # the first padding token is the end token
    with torch.no_grad():
        found = theirs(input_ids=rows).logits
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_heads_that_no_classifier_has_are_refused(tmp_path):
    reward_model(tmp_path / "layer", hidden=4)
    with pytest.raises(UserError, match="hidden layer"):
        write_classifier(tmp_path / "layer", tmp_path / "out")
    biased = reward_model(tmp_path / "bias", bias=True)
    biased.head.bias.data += 0.5
    save_head(biased.head, tmp_path / "bias")
    with pytest.raises(UserError, match=r"model\.bias false"):
        write_classifier(tmp_path / "bias", tmp_path / "out")
    with pytest.raises(UserError, match="no heads"):
        write_classifier(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_in_several_files_gets_one_more(tmp_path):
    from safetensors.torch import load_file, save_file

    mine = reward_model(tmp_path / "run")
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    (tmp_path / "run" / "model.safetensors").unlink()
    halves = {"a.safetensors": dict(list(tensors.items())[:9]), "b.safetensors": dict(list(tensors.items())[9:])}
    for name, part in halves.items():
        save_file(part, tmp_path / "run" / name, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {key: name for name, part in halves.items() for key in part}}
    (tmp_path / "run" / "model.safetensors.index.json").write_text(json.dumps(index))
    write_classifier(tmp_path / "run", tmp_path / "out")
    from transformers import AutoModelForSequenceClassification

    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", dtype=torch.float32)
    torch.testing.assert_close(theirs.score.weight.detach(), mine.head.weight.detach())
