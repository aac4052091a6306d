"""Formats of data sets of preferences, of instructions, and of requests that are safe or unsafe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gradus.tasks.data.files import Row
from gradus.tasks.formats.format import Format, Malformed, kept, text, value, whole

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def turns(dialogue: str, field: str) -> list[dict[str, str]]:
    """Returns the messages of a dialogue "\\n\\nHuman: ...\\n\\nAssistant: ...". Raises Malformed if the dialogue has another form."""
    before, *parts = _TURN.split(dialogue)
    if before.strip() or len(parts) < 4:
        raise Malformed(field, 'is not a dialogue of "\\n\\nHuman: ..." and "\\n\\nAssistant: ..."; give the official file')
    return [{"role": _ROLES[who], "content": said.strip()} for who, said in zip(parts[::2], parts[1::2])]


def _hh(row: Row) -> Row:
    chosen, rejected = (turns(text(row, name), name) for name in ("chosen", "rejected"))
    shared = next((i for i, (a, b) in enumerate(zip(chosen, rejected)) if a != b), min(len(chosen), len(rejected)) - 1)
    last = {chosen[-1]["role"], rejected[-1]["role"]}
    if last != {"assistant"} or chosen[shared]["role"] != "assistant" or shared != len(chosen) - 1 or shared != len(rejected) - 1:
        raise Malformed("rejected", "must differ from the chosen dialogue in the last answer, and only there; leave such rows out with --task.bad_rows")
    return {"prompt": chosen[:-1], "chosen": chosen[-1]["content"], "rejected": rejected[-1]["content"]}


def _tldr(row: Row) -> Row:
    summaries, choice = value(row, "summaries"), whole(row, "choice")
    if not isinstance(summaries, list) or len(summaries) != 2 or choice not in (0, 1):
        raise Malformed("summaries", "must have two summaries, and choice must be 0 or 1; give the official file")
    post = row.get("info") or {}
    head = "".join(f"{label}: {post[name]}\n\n" for label, name in (("SUBREDDIT", "subreddit"), ("TITLE", "title")) if post.get(name))
    prompt = f"{head}POST: {text(row, 'info', 'post')}\n\nTL;DR:"
    better, worse = (text(summaries[i], "text").strip() for i in (choice, 1 - choice))
    return {"prompt": prompt, "chosen": better, "rejected": worse, **kept(row, "worker", "split")}


def _ultrafeedback_binarized(row: Row) -> Row:
    found: dict[str, Any] = {"prompt": text(row, "prompt"), **kept(row, "score_chosen", "score_rejected")}
    for name in ("chosen", "rejected"):
        messages = value(row, name)
        if not isinstance(messages, list) or not messages or not isinstance(messages[-1], Mapping):
            raise Malformed(name, "must be a list of chat messages; give the official file")
        found[name] = text(messages[-1], "content")
    return found


def _ultrafeedback(row: Row) -> Row:
    answers = value(row, "completions")
    if not isinstance(answers, list) or not all(isinstance(one, Mapping) for one in answers):
        raise Malformed("completions", "must be a list of objects; give the official file")
    scored = [(float(value(one, "overall_score")), text(one, "response")) for one in answers]
    if len({score for score, _ in scored}) < 2:
        raise Malformed("completions", "has fewer than two different scores, so no answer is better; leave such rows out with --task.bad_rows")
    best, worst = max(scored, key=lambda one: one[0]), min(scored, key=lambda one: one[0])
    return {"prompt": text(row, "instruction"), "chosen": best[1], "rejected": worst[1], "score_chosen": best[0], "score_rejected": worst[0]}


def _alpaca(row: Row) -> Row:
    more = row.get("input")
    asked = text(row, "instruction")
    return {"prompt": f"{asked}\n\n{more}" if isinstance(more, str) and more.strip() else asked, "solution": text(row, "output")}


def _beavertails(row: Row) -> Row:
    safe = value(row, "is_safe")
    if not isinstance(safe, bool):
        raise Malformed("is_safe", "must be true or false; give the official file")
    response = text(row, "response")
    return {"prompt": text(row, "prompt"), "response": response, "is_safe": safe, "solution": response if safe else None, **kept(row, "category")}


def _wildjailbreak(row: Row) -> Row:
    attack = row.get("adversarial")
    prompt = attack if isinstance(attack, str) and attack.strip() else text(row, "vanilla")
    completion = row.get("completion")
    return {"prompt": prompt, "solution": completion if isinstance(completion, str) and completion.strip() else None, **kept(row, "data_type", "label")}


def _aidsafe(row: Row) -> Row:
    return {"prompt": text(row, "prompt"), "solution": f"<think>{text(row, 'thoughts')}</think>\n{text(row, 'response')}", **kept(row, "response")}


def _strongreject(row: Row) -> Row:
    return {"prompt": text(row, "forbidden_prompt"), **kept(row, "category", "source")}


FORMATS = (
    Format("hh_rlhf", "dialogues chosen and rejected", ("Anthropic/hh-rlhf",), _hh),
    Format("tldr_comparisons", "info.post, two summaries, choice", ("openai/summarize_from_feedback",), _tldr),
    Format("ultrafeedback_binarized", "prompt, messages chosen and rejected", ("HuggingFaceH4/ultrafeedback_binarized",), _ultrafeedback_binarized),
    Format("ultrafeedback", "instruction, completions with overall_score", ("openbmb/UltraFeedback",), _ultrafeedback),
    Format("alpaca", "instruction, perhaps input, output", ("tatsu-lab/alpaca",), _alpaca),
    Format("beavertails", "prompt, response, is_safe, category", ("PKU-Alignment/BeaverTails",), _beavertails),
    Format("wildjailbreak", "vanilla or adversarial request, completion, data_type", ("allenai/wildjailbreak",), _wildjailbreak),
    Format("aidsafe", "prompt, thoughts, response", ("AmazonScience/AIDSAFE",), _aidsafe),
    Format("strongreject", "forbidden_prompt, category", ("walledai/StrongREJECT",), _strongreject),
)
