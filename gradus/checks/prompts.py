"""Describes the form of a task's prompts, and shows the first prompt as the model sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradus.checks.findings import Finding, Verdict
from gradus.checks.template import messages_of
from gradus.policies import tiny
from gradus.study.held_out import held_out_requests
from gradus.types import Problem
from gradus.types.parts import Task

LONGEST = 200  # largest number of characters of a prompt that are shown


def of_prompts(policy: Any, task: Task, problems: Sequence[Problem]) -> Iterator[Finding]:
    """Yields a finding with the form of the prompts and the option that changes the form. The detail of the finding is the prompt of the first problem.

    Without a tokenizer there is no finding.
    """
    if not task.of_text or "text" not in policy.can or policy.tokenizer is None:
        return
    if task.environment is not None:
        yield Finding("prompts", "ok", f"a conversation with the environment, in {chat_template(policy)}")
        return
    if not problems:
        return
    forms = dict.fromkeys(form_of(problem) for problem in problems)
    says = "; ".join(said(form, policy) for form in forms)
    remedy = "; ".join(filter(None, (remedy_of(form, policy, task) for form in forms)))
    seen = policy.tokenizer.seen(policy.opening(messages_of(problems[0], task.system)).tokens)
    verdict: Verdict = "note" if "raw" in forms and policy.tokenizer.own_template else "ok"
    yield Finding("prompts", verdict, says, remedy, (f'the first: "{shown(seen)}"',))


def of_evaluation(run: Any) -> str:
    """Describes the form of a run's held-out prompts in one line, together with the first prompt; '' if the policy reads no text."""
    policy, task = run.players["policy"].policy, run.task
    asked = held_out_requests(task.held_out, 1, 1, task.level)
    return "; ".join(map(told, of_prompts(policy, task, [request.problem for request in asked]))).removeprefix("prompts: ")


def form_of(problem: Problem) -> str:
    """Returns the form of a prompt: raw, wrapped (a text as one user message) or chat."""
    return "raw" if problem.text is not None else "wrapped" if problem.plain else "chat"


def said(form: str, policy: Any) -> str:
    """Describes a form in words."""
    if form == "raw":
        return "raw text, without the model's chat template" if policy.tokenizer.own_template else "raw text"
    return f"{'text as a user message' if form == 'wrapped' else 'chat messages'} in {chat_template(policy)}"


def chat_template(policy: Any) -> str:
    """Names the chat template of a language model in words."""
    return "the model's chat template" if policy.tokenizer.own_template else "the default chat template, because the model has none"


def remedy_of(form: str, policy: Any, task: Task) -> str:
    """Returns the option that gives the prompts the other form (chat or raw).

    Returns '' if there is no such option: if the prompts belong to a conversation, or are not from data.
    """
    if form == "chat" or task.system or not getattr(task.source, "plain", False):
        return ""
    if form == "wrapped":
        return "--task.prompt raw gives the text alone"
    if not policy.tokenizer.own_template:
        return "--task.prompt chat makes each prompt a user message"
    return f"--task.prompt chat puts each prompt into the template{', the only form that the built-in model knows' if built_in(policy) else ''}"


def built_in(policy: Any) -> bool:
    """Whether the model is one of the built-in models."""
    source = getattr(getattr(policy, "folder", None), "source", None)
    return source is not None and Path(source).parent == Path(tiny.__file__).parent


def told(finding: Finding) -> str:
    """Writes the finding on one line."""
    remedy = f" ({finding.remedy})" if finding.remedy else ""
    return "; ".join([f"{finding.check}: {finding.says}{remedy}", *finding.details])


def shown(text: str) -> str:
    """Writes a text on one line.

    Control characters and backslashes are escaped. In a long text, the number of left-out characters replaces the middle.
    """
    if len(text) <= LONGEST:
        return printed(text)
    half = LONGEST // 2
    return f"{printed(text[:half])} [{len(text) - 2 * half:,} characters left out] {printed(text[-half:])}"


def printed(text: str) -> str:
    """Replaces the unprintable characters and the backslashes of a text by escapes, such as \\n."""
    return "".join(c if c.isprintable() and c != "\\" else ascii(c)[1:-1] for c in text)
