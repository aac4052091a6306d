"""Converts text to tokens and back.

The `tokenizers` package reads tokenizer.json; other formats are read through `transformers`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradus.policies.chat import DEFAULT_TEMPLATE, render, render_follow
from gradus.policies.config import read_json
from gradus.types import Message, UserError

FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("chat_template.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model"),
)
_SPECIALS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True)
class Tokenizer:
    """A model's tokenizer: text to tokens and back."""

    encode: Callable[[str, bool], list[int]]  # arguments: the text, and whether to add the model's own special tokens, such as a start token
    decode: Callable[[list[int], bool], str]  # arguments: the tokens, and whether to leave out special tokens
    template: str  # the chat template, in jinja's language
    specials: Mapping[str, str]  # special tokens by name: bos_token, eos_token, ...
    end: int | None  # the id of eos_token
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # the tokenizer's files from the model folder, unchanged
    own_template: bool = True  # whether the model has its own template
    name: Callable[[int], str | None] = str  # gives the vocabulary's name of a token, such as <|im_end|>; None if there is no such token

    def tokens(self, prompt: str | Sequence[Message]) -> np.ndarray:
        """Returns the int32 tokens of raw text, or of messages with the start of the assistant's turn."""
        if isinstance(prompt, str):
            return np.array(self.encode(prompt, True), dtype=np.int32)
        return np.array(self.encode(render(self.template, prompt, self.specials), False), dtype=np.int32)

    def follow(self, observation: str | Sequence[Message]) -> np.ndarray:
        """Returns the int32 tokens that end the assistant's turn, contain the observation and start the next turn.

        An observation that is text becomes a user message. Only new text is tokenised, never sampled text. If the template ends a turn with the end token,
        the end token is the first token of the result.
        """
        messages = ({"role": "user", "content": observation},) if isinstance(observation, str) else observation
        return np.array(self.encode(render_follow(self.template, messages, self.specials), False), dtype=np.int32)

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Returns the text of tokens, without special tokens."""
        return self.decode([int(t) for t in tokens], True)

    def seen(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Returns the text of tokens with special tokens, as the model reads it."""
        return self.decode([int(t) for t in tokens], False)

    def save(self, folder: Path) -> None:
        """Writes the tokenizer's files unchanged."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """Loads the tokenizer in a model folder; None if the folder has no tokenizer.

    tokenizer.json is used unchanged. For some families, AutoTokenizer of transformers replaces the word pattern in the file by the pattern of the family.
    This would be wrong for models with another tokenizer. Raises: UserError with the name of a malformed file.
    """
    files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    config = read_json(folder / "tokenizer_config.json") if "tokenizer_config.json" in files else {}
    mapped = read_json(folder / "special_tokens_map.json") if "special_tokens_map.json" in files else {}
    specials = {name: _content(found) for name in _SPECIALS if (found := config.get(name) or mapped.get(name))}
    template = _template(folder, files, config)
    if "tokenizer.json" in files:
        encode, decode, ids, name = _fast(folder, config)
    elif files.keys() & {"tokenizer.model", "vocab.json", "vocab.txt", "spiece.model"}:
        encode, decode, ids, name = _through_transformers(folder)
    else:
        return None
    eos = specials.get("eos_token")
    end = None if eos is None else ids(eos)
    return Tokenizer(encode, decode, template or DEFAULT_TEMPLATE, specials, end, files, template is not None, name)


Parts = tuple[
    Callable[[str, bool], list[int]], Callable[[list[int], bool], str], Callable[[str], "int | None"], Callable[[int], "str | None"]
]


def _fast(folder: Path, config: Mapping[str, Any]) -> Parts:
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the package raises plain Exception for every malformed file
        raise UserError(f"{folder / 'tokenizer.json'} cannot be read ({error}); save the tokenizer again with save_pretrained") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    known = tokenizer.get_vocab(with_added_tokens=True)
    for _, entry in sorted(config.get("added_tokens_decoder", {}).items(), key=lambda item: int(item[0])):
        if entry["content"] not in known:
            options = {k: v for k, v in entry.items() if k in ("single_word", "lstrip", "rstrip", "normalized")}
            token = tokenizers.AddedToken(entry["content"], **options, special=entry.get("special", False))
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return (
        lambda text, framed: tokenizer.encode(text, add_special_tokens=framed).ids,
        lambda tokens, plain: tokenizer.decode(tokens, skip_special_tokens=plain),
        tokenizer.token_to_id,
        tokenizer.id_to_token,
    )


def _through_transformers(folder: Path) -> Parts:
    from transformers import AutoTokenizer

    tokenizer: Any
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the formats' libraries raise many types
        raise UserError(f'the tokenizer files of "{folder}" cannot be read ({error}); save a tokenizer.json in that folder') from None
    return (
        lambda text, framed: tokenizer(text, add_special_tokens=framed)["input_ids"],
        lambda tokens, plain: tokenizer.decode(tokens, skip_special_tokens=plain),
        tokenizer.convert_tokens_to_ids,
        tokenizer.convert_ids_to_tokens,
    )


def _content(token: Any) -> str:
    return str(token["content"]) if isinstance(token, Mapping) else str(token)


def _template(folder: Path, files: Mapping[str, bytes], config: Mapping[str, Any]) -> str | None:
    """Returns the content of chat_template.jinja, else the field `chat_template` of tokenizer_config.json or chat_template.json.

    If a field has several named templates, returns the template with the name "default".
    """
    if "chat_template.jinja" in files:
        return files["chat_template.jinja"].decode("utf-8")
    found = config.get("chat_template")
    if found is None and "chat_template.json" in files:
        found = json.loads(files["chat_template.json"]).get("chat_template")
    if isinstance(found, list):
        named = {entry["name"]: entry["template"] for entry in found}
        if "default" not in named:
            raise UserError(
                f'{folder / "tokenizer_config.json"}: `chat_template` has no entry named "default"; rename one of {sorted(named)} to "default"'
            )
        return str(named["default"])
    return None if found is None else str(found)
