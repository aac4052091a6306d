from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from gradus.policies.tokenizer import load_tokenizer
from gradus.types import UserError

TALK = [{"role": "user", "content": "What is 12 + 30?"}, {"role": "assistant", "content": "42 is"}, {"role": "user", "content": "é <s>!"}]


@pytest.fixture
def copied(tokenizer_folder, tmp_path):
    shutil.copytree(tokenizer_folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def edit(folder, **changes):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_tokens_are_those_of_transformers(tokenizer_folder):
    from transformers import AutoTokenizer

    ours, theirs = load_tokenizer(tokenizer_folder), AutoTokenizer.from_pretrained(tokenizer_folder)
    expected = theirs.apply_chat_template(TALK, add_generation_prompt=True, return_dict=False)
    found = ours.tokens(TALK)
    assert found.tolist() == expected
    assert found.dtype == np.int32
    assert ours.tokens("hello <|im_end|> world").tolist() == theirs("hello <|im_end|> world")["input_ids"]
    assert ours.text(expected) == theirs.decode(expected, skip_special_tokens=True)
    assert ours.end == theirs.eos_token_id


def test_a_start_token_frames_raw_text_only(copied):
    from tokenizers import Tokenizer, processors
    from transformers import AutoTokenizer

    raw = Tokenizer.from_file(str(copied / "tokenizer.json"))
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    raw.save(str(copied / "tokenizer.json"))
    ours, theirs = load_tokenizer(copied), AutoTokenizer.from_pretrained(copied)
    assert ours.tokens("what")[0] == 0
    assert ours.tokens("what").tolist() == theirs("what")["input_ids"]
    assert ours.tokens(TALK).tolist() == theirs.apply_chat_template(TALK, add_generation_prompt=True, return_dict=False)
    assert ours.follow("what")[0] == ours.end


def test_follow_is_what_the_template_adds(tokenizer_folder):
    tokenizer = load_tokenizer(tokenizer_folder)
    sampled = tokenizer.encode("42 is", False)
    whole = [*tokenizer.tokens(TALK[:1]), *sampled, *tokenizer.follow("é <s>!")]
    assert whole == tokenizer.tokens(TALK).tolist()
    assert tokenizer.follow([TALK[2]]).tolist() == tokenizer.follow(TALK[2]["content"]).tolist()


def test_files_are_saved_as_they_were(tokenizer_folder, tmp_path):
    load_tokenizer(tokenizer_folder).save(tmp_path)
    for file in tokenizer_folder.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_added_tokens_of_the_configuration_are_known(copied):
    extra = {"content": "<tool>", "special": True, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    edit(copied, added_tokens_decoder={"300": extra})
    tokenizer = load_tokenizer(copied)
    assert len(tokenizer.tokens("<tool>")) == 1
    assert tokenizer.text(tokenizer.tokens("a<tool>b")) == "ab"


def test_where_a_template_may_stand(copied):
    (copied / "chat_template.jinja").unlink()
    assert not load_tokenizer(copied).own_template
    edit(copied, chat_template="T{{ messages[0].content }}")
    assert load_tokenizer(copied).text(load_tokenizer(copied).tokens([{"role": "user", "content": "x"}])) == "Tx"
    edit(copied, chat_template=[{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}])
    assert load_tokenizer(copied).template == "yes"
    edit(copied, chat_template=[{"name": "tool_use", "template": "no"}])
    with pytest.raises(UserError, match='no entry named "default"'):
        load_tokenizer(copied)


def test_malformed_files_are_named(copied, tmp_path):
    (copied / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"tokenizer\.json cannot be read"):
        load_tokenizer(copied)
    (copied / "tokenizer_config.json").write_text('{"a":\n]')
    with pytest.raises(UserError, match=r"tokenizer_config\.json, line 2"):
        load_tokenizer(copied)


def test_no_tokenizer_at_all(tmp_path):
    assert load_tokenizer(tmp_path) is None


def test_older_formats_go_through_transformers(tmp_path):
    from transformers import BertTokenizer

    vocabulary = {token: i for i, token in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two"))}
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "eos_token": "[SEP]"}))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("one two", False) == BertTokenizer(vocab=vocabulary)("one two", add_special_tokens=False)["input_ids"] == [5, 6]
    assert tokenizer.text([5, 3, 6]) == "one two"
    assert tokenizer.end == 3


def test_special_tokens_are_seen_on_demand(tokenizer_folder):
    tokenizer = load_tokenizer(tokenizer_folder)
    tokens = tokenizer.tokens(TALK[:1])
    assert tokenizer.seen(tokens) == "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.text(tokens) == "user\nWhat is 12 + 30?\nassistant\n"


@pytest.mark.nightly
@pytest.mark.parametrize("start", [False, True])
def test_prompts_are_trl_s_own_tokens(copied, start):
    """TRL's method for the tokens of prompts, run on the same tokenizer with and without a start token."""
    trainer = pytest.importorskip("trl.trainer.grpo_trainer", reason="trl is in the extra benchmarks")
    from types import SimpleNamespace

    from tokenizers import Tokenizer, processors
    from transformers import AutoTokenizer

    if start:
        raw = Tokenizer.from_file(str(copied / "tokenizer.json"))
        raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        raw.save(str(copied / "tokenizer.json"))
    ours, theirs = load_tokenizer(copied), AutoTokenizer.from_pretrained(copied)
    bare = SimpleNamespace(
        processing_class=theirs, _is_vlm=False, environment_factories=None, tools=None, chat_template=None, chat_template_kwargs={}
    )
    for prompts in (["A dog named Max", " two\n<|im_end|> é"], [TALK, TALK[:1]]):
        found, _, _ = trainer.GRPOTrainer._tokenize_prompts(bare, prompts)
        assert [ours.tokens(prompt).tolist() for prompt in prompts] == found
    assert (ours.tokens("A dog")[0] == 0) == start
