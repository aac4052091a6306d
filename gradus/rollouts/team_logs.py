"""Logs of a team of agents, as one text whose tags name the agents, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradus.types import Problem

TAGS = ("plan", "think", "web_search", "reflection", "suggested_answer", "double_check", "answer")
_SEGMENT = re.compile(rf"<({'|'.join(TAGS)})>([^<]*[^<\s][^<]*)</\1>(?:<observation>(.*?)</observation>)?\s*", re.DOTALL)


@dataclass(frozen=True)
class Activation:
    """One activation of an agent: its tag, its text, and the result of its tool (None for a role agent)."""

    agent: str
    said: str
    told: str | None = None


def turns_of(log: Sequence[Activation]) -> list[tuple[str, str]]:
    """Returns pairs (observation, action): a tool call ends an action, and its result is the next observation.

    >>> turns_of([Activation("plan", "a"), Activation("web_search", "b", "c"), Activation("answer", "d")])
    [('', '<plan>a</plan><web_search>b</web_search>'), ('c', '<answer>d</answer>')]
    """
    pairs = [("", "")]
    for one in log:
        pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}<{one.agent}>{one.said}</{one.agent}>")
        if one.told is not None:
            pairs.append((one.told, ""))
    return pairs


def log_of(text: str) -> list[Activation]:
    """Returns the activations of a trace, the inverse of `turns_of`. `text`: the actions with the observations between their tags."""
    return [Activation(*found.groups()) for found in _SEGMENT.finditer(text)]


def formed(text: str) -> bool:
    """Returns whether a player's text consists of non-empty segments without nesting, and its only answer is at the end.

    >>> [formed(text) for text in ("<plan>a</plan><answer>b</answer>", "<plan>a<answer>b</answer>", "so <answer>b</answer>", "<answer> </answer>")]
    [True, False, False, False]
    """
    tags = [found[1] for found in _SEGMENT.finditer(text)]
    whole = "".join(found[0] for found in _SEGMENT.finditer(text)) == text.lstrip()
    return whole and tags.count("answer") == 1 and tags[-1] == "answer" and "<observation>" not in text


def kept(log: Sequence[Activation], problem: Problem, least: int = 5) -> bool:
    """Returns whether a trace is kept: its answer is right, it has `least` activations or more, and no activation occurs twice."""
    said = [(one.agent, one.said) for one in log]
    return said[-1] == ("answer", str(problem.answer)) and len(said) >= least and len({*said}) == len(said)
