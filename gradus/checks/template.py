"""Checks the chat template. Prompts and answers must be the same after encoding and decoding, and a turn must begin and end correctly."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from gradus.checks.findings import Finding, counted
from gradus.policies.chat import render
from gradus.types import Message, Problem, UserError
from gradus.types.media import parts_of
from gradus.types.parts import Task


def of_template(policy: Any, task: Task, problems: Sequence[Problem], *, whole: bool = True) -> Iterator[Finding]:
    """Checks the template of a language model on some problems of its task. `whole`: whether to check also the form of a finished turn.

    Raises UserError if the template or the tokenizer fails.
    """
    asked = [messages_of(p, task.system) for p in problems]
    lost = _lost([(p, part, policy.text(policy.opening(prompt).tokens)) for p, prompt in zip(problems, asked, strict=True) for part in _parts(prompt)])
    if lost:
        says = f"{len(lost)} of {counted(len(problems), 'prompt')} lose text when they are encoded into the tokens that the model reads"
        remedy = "take a model whose tokenizer knows these letters and whose template shows these messages, or change the data"
        yield Finding("template", "wrong", says, remedy, tuple(lost))
    given = [(p, text) for p in problems for text in answers_of(p)[:1]]
    strange = _lost([(p, text, policy.text(policy.told(text).tokens)) for p, text in given])
    if strange:
        says = f"{len(strange)} of {counted(len(given), 'reference answer')} lose text when they are encoded into tokens: the model cannot write them"
        yield Finding("template", "wrong", says, "take a model whose tokenizer knows these letters, or change the answers", tuple(strange))
    limit = policy.context_length
    long = [(p, n) for p, prompt in zip(problems, asked, strict=True) if (n := len(policy.opening(prompt).sequence)) >= limit]
    if long:
        details = tuple(f"problem {p.id}: {n} tokens" for p, n in long)
        says = f"{len(long)} of {counted(len(problems), 'prompt')} leave no token for the answer: the model's context has {limit} tokens"
        yield Finding("template", "wrong", says, "shorten the prompts, or use a model with a longer context", details)
    chats = [prompt for prompt in asked if not isinstance(prompt, str)]
    odd = [*_ends(policy, task), *_closed(policy, asked), *_opening(policy, chats), *(_turns(policy, chats, given) if whole else ())]
    yield from odd
    if not (lost or strange or long or odd):
        own = "the model's template" if policy.tokenizer.own_template else "the default template (the model has none)"
        tried = f"{counted(len(problems), 'prompt')} and {counted(len(given), 'answer')}"
        yield Finding("template", "ok", f"{own if chats else 'raw text'}: {tried} keep their text when they are encoded and decoded")


def messages_of(problem: Problem, system: str | None) -> str | tuple[Message, ...]:
    """Returns the prompt of a problem: raw text, or the messages after the task's system message."""
    if problem.text is not None:
        return problem.text
    return ({"role": "system", "content": system}, *problem.messages) if system else problem.messages


def answers_of(problem: Problem) -> list[str]:
    """Returns the reference texts of a problem that are not blank: its worked solution first, then its answer."""
    return [text for text in (problem.meta.get("solution"), problem.reference) if isinstance(text, str) and text.strip()]


def _parts(prompt: str | Sequence[Message]) -> list[str]:
    return [prompt] if isinstance(prompt, str) else [str(part["text"]) for m in prompt for part in parts_of(m) if part.get("type") == "text"]


def _lost(trips: Sequence[tuple[Problem, str, str]]) -> list[str]:
    """Returns a line for every problem whose text is not in the decoded text.

    Spaces are not compared, because templates remove them and some tokenizers add them.
    """
    found: dict[str, str] = {}
    for problem, text, back in trips:
        before, after = ("".join(unicodedata.normalize("NFKC", t).split()) for t in (text, back))  # some tokenizers normalise
        if before in after:
            continue
        letters = sorted(set(before) - set(after))
        what = f"lost {' '.join(map(ascii_or_self, letters[:12]))}" if letters else f"{text[:40]!r} comes back as {back[:60]!r}"
        found.setdefault(problem.id, f"problem {problem.id}: {what}")
    return list(found.values())


def ascii_or_self(letter: str) -> str:
    """Returns a letter if it is printable, else its escape."""
    return letter if letter.isprintable() else ascii(letter)[1:-1]


def _ends(policy: Any, task: Task) -> Iterator[Finding]:
    """Checks whether the model can end its turn."""
    end = policy.tokenizer.end
    if not policy.end_tokens and not task.sampling.stops:
        says = "the model has no end token, so every answer runs to max_tokens"
        yield Finding("template", "warning", says, 'set `eos_token` in tokenizer_config.json and `eos_token_id` in generation_config.json')
    elif end is not None and end not in policy.end_tokens:
        says = f"the tokenizer's end token ({end}) is not among the tokens that end an answer ({', '.join(map(str, policy.end_tokens))})"
        yield Finding("template", "warning", says, "add it to eos_token_id in generation_config.json")


def _closed(policy: Any, asked: Sequence[str | Sequence[Message]]) -> Iterator[Finding]:
    """Checks that the tokenizer adds no end token after raw text, so that the model can continue the text."""
    text = next((prompt for prompt in asked if isinstance(prompt, str)), None)
    added = policy.tokenizer.encode(text, True)[-1:] if text is not None else []
    if text is not None and set(added) & set(policy.end_tokens) and added != policy.tokenizer.encode(text, False)[-1:]:
        says = "the tokenizer puts an end token after raw text, so every prompt is a finished text"
        yield Finding("template", "warning", says, "remove the end token from the post_processor in tokenizer.json, or give --task.prompt chat")


def _opening(policy: Any, chats: Sequence[Sequence[Message]]) -> Iterator[Finding]:
    """Checks whether the template marks the beginning of the model's turn."""
    template, specials = policy.tokenizer.template, policy.tokenizer.specials
    if chats and render(template, chats[0], specials) == render(template, chats[0], specials, opening=False):
        says = "the chat template writes nothing for add_generation_prompt, so nothing marks the beginning of the model's turn"
        yield Finding("template", "warning", says, "use the template of an instruction-tuned model, with a generation prompt")


def _turns(policy: Any, chats: Sequence[Sequence[Message]], given: Sequence[tuple[Problem, str]]) -> Iterator[Finding]:
    """Checks whether a finished turn begins with the same text as its prompt, and ends with an end token."""
    tokenizer = policy.tokenizer
    if not chats:
        return
    chat, answer = tuple(chats[0]), next((text for _, text in given), "yes").strip()
    opened = render(tokenizer.template, chat, tokenizer.specials)
    try:
        whole = render(tokenizer.template, (*chat, {"role": "assistant", "content": answer}), tokenizer.specials, opening=False)
    except UserError as error:
        yield Finding("template", "warning", f"a conversation with an answer cannot be written: {error}", "fix `chat_template` in the model folder")
        return
    if not whole.startswith(opened + answer):
        says = f"a finished turn differs from its prompt: the prompt ends in {opened[-40:]!r}, the conversation in {whole[-60:]!r}"
        yield Finding("template", "warning", says, "this matters for tasks of many turns, not for tasks of one turn")
        return
    closing = tokenizer.encode(whole[len(opened + answer) :], False)
    if policy.end_tokens and not set(closing[:2]) & set(policy.end_tokens):
        says = "the template does not close the assistant's turn with a token that ends an answer"
        yield Finding("template", "warning", says, "add the token that closes a turn to eos_token_id in generation_config.json")
