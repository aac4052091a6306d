"""The answers that a report shows: a few steps, some problems per step, and some answers per problem. The page also tells which part is omitted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradus.lab import rollouts
from gradus.lab.arrow import plain_json
from gradus.lab.page_text import shown
from gradus.lab.transcript import Decode, Segment, decoder, many_turns, sample, segments
from gradus.types import Ended, Failed, Group, Outcome, Problem, Trajectory, without_aside
from gradus.types.media import Media, readable
from gradus.types.png import data_uri

PICTURES = 4  # largest number of pictures that are shown of one prompt or observation
CUT = (Ended.LENGTH, Ended.CONTEXT, Ended.TRUNCATED)  # the ends of answers that a limit causes
TURNS = 24  # largest number of turns that are shown of one answer
SIZE = 1_200_000  # largest size of all answers on the page, in bytes


@dataclass(frozen=True)
class Extent:
    """The largest numbers of steps, problems per step, answers per problem, and characters per text."""

    steps: int
    problems: int
    answers: int
    text: int


EXTENTS = (
    Extent(24, 8, 6, 6000),
    Extent(12, 6, 4, 6000),
    *(Extent(5, 6, 4, text) for text in (6000, 2500, 1000, 400, 150)),
)
"""The page takes the first extent whose answers fit into SIZE. A few complete texts are better than many cut texts."""


@dataclass(frozen=True)
class Seen:
    """The groups of a step that the page may show, the numbers of the step's problems and answers, and their mean reward."""

    step: int
    why: Sequence[str]
    groups: Sequence[Group]
    problems: int
    answers: int
    mean: float | None


def answers(run: Path, folder: Path, metrics: Sequence[Mapping[str, Any]]) -> str:
    """Returns the section of answers. Args: run: the run's folder; folder: the folder of its rollouts."""
    steps = rollouts.stored(folder)
    if not steps:
        return '<p class="soft">No rollout is stored.</p>'
    widest = EXTENTS[0]
    named = chosen(steps, metrics, widest.steps)
    stored = [_seen(step, named[step], groups, widest.problems) for step, groups in rollouts.scan(folder, list(named))]
    decode = functools.cache(functools.partial(decoder, run))
    for extent in EXTENTS:
        kept = fewer({one.step: one.why for one in stored}, extent.steps)
        sections = "".join(_step(one, kept[one.step], extent, decode) for one in stored if one.step in kept)
        if len(sections.encode("utf-8", "replace")) <= SIZE:
            break
    links = "".join(_link(step, why) for step, why in kept.items())
    jump = f'<nav class="jump" aria-label="Steps"><a href="#answers">all steps</a>{links}</nav>'
    return f"{_said(len(steps), len(kept), extent)}{_SEARCH}{jump}{sections}"


def _link(step: int, why: Sequence[str]) -> str:
    told = f" <small>{', '.join(why)}</small>" if why else ""
    return f'<a href="#step-{step}">{step:,}{told}</a>'


def _seen(step: int, why: Sequence[str], groups: Sequence[Group], most: int) -> Seen:
    usual = [g for g in without_aside(groups) or groups if g.trajectories]
    values = [t.value for g in usual for t in g.trajectories if t.failed is None]
    mean = sum(values) / len(values) if values else None
    return Seen(step, why, picked(usual, most), len(usual), sum(len(g.trajectories) for g in usual), mean)


def _choice(name: str, label: str, options: Sequence[tuple[str, str]]) -> str:
    inside = "".join(f'<option value="{value}">{told}</option>' for value, told in options)
    return f'<label for="{name}">{label}</label><select id="{name}">{inside}</select>'


def _bound(name: str, label: str) -> str:
    return f'<label for="{name}">{label}</label><input id="{name}" type="number" step="any">'


_SEARCH = (
    '<div class="find" hidden>'
    '<span class="text"><label for="find">Text</label>'
    '<input id="find" type="search" autocomplete="off" spellcheck="false" placeholder="in prompts and answers"></span>'
    f"<span>{_choice('verdict', 'Verdict', (('', 'any'), ('right', 'right'), ('wrong', 'wrong'), ('failed', 'no reward')))}</span>"
    f"<span>{_choice('end', 'End', (('', 'any'), ('whole', 'whole'), ('cut', 'truncated')))}</span>"
    f'<span>{_bound("low", "Reward from")}{_bound("high", "to")}</span>'
    '<span><button id="reset" type="button">Reset</button> <output id="found" for="find verdict end low high"></output></span></div>'
)


def _said(steps: int, shown_steps: int, extent: Extent) -> str:
    """Returns the sentences about the choice of answers."""
    which = "All stored steps" if shown_steps == steps else f"{shown_steps} of {steps:,} stored steps, with the highest and the lowest mean reward"
    return (
        f'<p class="soft">{which}. At most {extent.problems} problems of a step (the widest range of rewards first) and {extent.answers} different '
        f"answers of a problem (with the best and the worst). Texts are cut after {extent.text:,} characters. The folder <code>rollouts</code> of the "
        "run holds every answer.</p>"
    )


def chosen(steps: Sequence[int], metrics: Sequence[Mapping[str, Any]], most: int = 5) -> dict[int, list[str]]:
    """Returns the steps to show, in rising order, each with the reasons to show it.

    Reasons are: first, middle, last, highest and lowest mean reward. If fewer than `most` steps have a reason, evenly spaced steps without a reason are added.
    """
    there = set(steps)
    rewards = {row["step"]: row["reward"] for row in metrics if row.get("reward") is not None and row["step"] in there}
    reasons = [(steps[0], "first"), (steps[len(steps) // 2], "middle"), (steps[-1], "last")]
    if len(set(rewards.values())) > 1:
        reasons += [(max(rewards, key=lambda s: rewards[s]), "highest reward"), (min(rewards, key=lambda s: rewards[s]), "lowest reward")]
    found: dict[int, list[str]] = {}
    for step, why in sorted(reasons, key=lambda pair: pair[0]):
        found.setdefault(step, []).append(why)
    apart = min(most, len(steps))
    for i in range(apart):
        if len(found) < most:
            found.setdefault(steps[round(i * (len(steps) - 1) / max(apart - 1, 1))], [])
    return dict(sorted(found.items()))


def fewer(named: Mapping[int, Sequence[str]], most: int) -> dict[int, Sequence[str]]:
    """Returns all chosen steps that have a reason. Adds evenly spaced other steps, up to `most` steps in all."""
    others = [step for step, why in named.items() if not why]
    free = min(max(most - (len(named) - len(others)), 0), len(others))
    kept = {others[i * len(others) // free] for i in range(free)}
    return {step: why for step, why in named.items() if why or step in kept}


def picked(groups: Sequence[Group], most: int) -> list[Group]:
    """Returns the groups to show, in their order.

    Two thirds are the groups with the widest range of rewards. One group has a failure. The rest are evenly spaced groups.
    """
    ranges = {id(g): _range(g) for g in groups}
    order = sorted(groups, key=lambda g: -ranges[id(g)])
    kept = order[: max(1, 2 * most // 3)]
    failing = [g for g in order if any(t.failed is not None for t in g.trajectories)]
    kept += [g for g in failing[:1] if g not in kept]
    rest = [g for g in groups if g not in kept]
    free = min(most - len(kept), len(rest))
    kept += [rest[i * len(rest) // free] for i in range(free)]
    return [g for g in groups if g in kept]


def _range(group: Group) -> float:
    values = [t.value for t in group.trajectories if t.failed is None]
    return max(values) - min(values) if values else -1.0


@dataclass(frozen=True)
class Pick:
    """An answer to show. `kind` is best, worst, failed or ''. `count` is the number of equal answers in the group."""

    kind: str
    trajectory: Trajectory
    count: int


def best_first(group: Group, most: int) -> list[Pick]:
    """Returns the answers to show: the best, the worst, evenly spaced answers between them, and a failed answer if an answer failed.

    Equal answers count as one answer.
    """
    equal: dict[Any, list[Trajectory]] = {}
    for t in group.trajectories:
        equal.setdefault((t.failed, t.reward if t.failed is None else None, _identity(t)), []).append(t)
    judged = sorted((same for same in equal.values() if same[0].failed is None), key=lambda same: -same[0].value)
    lost = [same for same in equal.values() if same[0].failed is not None]
    lost = lost[: max(1, most - len(judged))]
    free = most - len(lost)
    if len(judged) > free:
        judged = [judged[round(i * (len(judged) - 1) / max(free - 1, 1))] for i in range(free)]
    differ = len(judged) > 1 and judged[0][0].value > judged[-1][0].value
    kinds = ["best", *[""] * (len(judged) - 2), "worst"] if differ else [""] * len(judged)
    kinds += ["failed"] * len(lost)
    return [Pick(kind, same[0], len(same)) for kind, same in zip(kinds, [*judged, *lost], strict=True)]


def _identity(trajectory: Trajectory) -> tuple[Any, ...]:
    """Returns the content that makes two answers equal: the text, the tokens with their media, or the sample of a flow generator."""
    return (trajectory.completion, sample(trajectory), *(c.beginning(len(c.sequence)) for c in trajectory.contexts))


def _step(seen: Seen, why: Sequence[str], extent: Extent, decode: Callable[[], Decode | None]) -> str:
    kept = picked(seen.groups, extent.problems)
    facts = [f"mean reward <b>{seen.mean:.3f}</b>"] if seen.mean is not None else []
    facts += [f"{_some(seen.problems, 'problem')}, {_some(seen.answers, 'answer')}"]
    facts += [f"{len(kept)} problems shown"] if len(kept) < seen.problems else []
    inside = "".join(_problem(g, extent, decode) for g in kept) or '<p class="soft">This step has no trajectory.</p>'
    head = f'<h3>Step {seen.step:,} <span class="why">{", ".join(why)}</span></h3><p class="soft facts">{" · ".join(facts)}</p>'
    return f'<section class="step" id="step-{seen.step}">{head}{inside}</section>'


def _problem(group: Group, extent: Extent, decode: Callable[[], Decode | None]) -> str:
    picks = best_first(group, extent.answers)
    problem = group.trajectories[0].problem
    told = [_turns(pick.trajectory, decode) for pick in picks]
    opening = next((turns[0].text for turns in told if turns and not turns[0].own), None)
    right, count = sum(t.right for t in group.trajectories), len(group.trajectories)
    given = all(t.source == "expert" for t in group.trajectories)
    facts = [_some(count, "given answer")] if given else [f"{right} of {count} right"]
    shown_count = sum(pick.count for pick in picks)
    facts += [f"{count - shown_count} not shown"] if shown_count < count else []
    if problem.answer is not None:
        facts.append(f"reference answer <code>{shown(_reference(problem.answer), 200)}</code>")
    articles = "".join(_article(pick, turns, opening, extent.text) for pick, turns in zip(picks, told, strict=True))
    return (
        f'<div class="problem"><pre class="prompt" dir="auto">{shown(opening or _prompt(problem), extent.text)}</pre>{_pictures(problem.media)}'
        f'<p class="soft facts">{" · ".join(facts)}</p><div class="pair">{articles}</div></div>'
    )


def _pictures(media: Sequence[Media]) -> str:
    """Returns the first pictures as images of the page, with their digests."""
    kept = [m for m in media if m.kind in ("image", "video")][:PICTURES]
    return "".join(f'<img alt="{m.kind} {m.digest[:8]}" title="{m.digest[:8]}" style="max-width:16rem;margin:.25rem" src="{data_uri(m)}">' for m in kept)


def _prompt(problem: Problem) -> str:
    """Returns the problem's text, or its messages. A single user message appears without its role."""
    if problem.text is not None:
        return problem.text
    if len(problem.messages) == 1 and problem.messages[0].get("role") == "user":
        return readable(problem.messages[0])
    return "\n\n".join(f"{m.get('role')}: {readable(m)}" for m in problem.messages)


def _turns(trajectory: Trajectory, decode: Callable[[], Decode | None]) -> list[Segment]:
    """Returns the turns of a trajectory.

    The result is empty for a single answer, for an answer of another player, and if the run has no tokenizer.
    """
    if trajectory.player != "policy" or not many_turns(trajectory) or (text := decode()) is None:
        return []
    return [one for context in segments(trajectory, text) for one in context if one.text.strip() or one.own]


def _article(pick: Pick, turns: Sequence[Segment], opening: str | None, limit: int) -> str:
    trajectory = pick.trajectory
    tag = f'<span class="tag">{pick.kind}</span>' if pick.kind else ""
    often = [f"<b>{pick.count}</b> times"] if pick.count > 1 else []
    head = f'<header>{tag}{" · ".join([*_facts(trajectory), *often])}</header>'
    if turns:
        first = turns[0]
        turns = turns[1:] if not first.own and first.text == opening else turns
        body = _list(turns, limit)
    else:
        said = shown(trajectory.completion, limit) if trajectory.completion else f'<span class="soft">{sample(trajectory) or "no text"}</span>'
        body = f'<pre dir="auto">{said}</pre>'
    return f'<article class="{pick.kind or "other"}"{_marks(trajectory)}>{head}{body}</article>'


def _marks(trajectory: Trajectory) -> str:
    """Returns the attributes for the filters of the page: the reward if there is one, whether the answer is right, and whether a limit cut the answer off."""
    judged = f' data-reward="{trajectory.value:.6g}"' if trajectory.failed is None else ""
    return f"{judged} data-right=\"{int(trajectory.right)}\" data-cut=\"{int(trajectory.ended in CUT)}\""


def _list(turns: Sequence[Segment], limit: int) -> str:
    """Returns the chosen and the given stretches of text as a list. The middle of a long list is left out."""
    left_out = len(turns) - TURNS
    items = [_turn(one, limit) for one in (turns if left_out <= 0 else [*turns[: TURNS // 2], *turns[-TURNS // 2 :]])]
    if left_out > 0:
        items.insert(TURNS // 2, f'<li class="soft">… {_some(left_out, "turn")} not shown</li>')
    return f'<ol class="turns">{"".join(items)}</ol>'


def _turn(one: Segment, limit: int) -> str:
    kind, who = ("said", "policy") if one.own else ("seen", "observation")
    text = shown(one.text.strip("\n"), limit) or '<span class="soft">no text</span>'
    return f'<li class="{kind}"><span class="who">{who}</span><pre dir="auto">{text}</pre>{_pictures(one.media)}</li>'


def _facts(trajectory: Trajectory) -> Iterator[str]:
    """Yields the properties of an answer: the reward with the components that equal it, other components, advantage, length and end."""
    alike = [name for name, value in trajectory.components.items() if value == trajectory.reward and not isinstance(value, Failed)]
    yield f"{' = '.join(['reward', *(shown(name, 100) for name in alike)])} <b>{_outcome(trajectory.reward)}</b>"
    for name, value in trajectory.components.items():
        if name not in alike:
            yield f"{shown(name, 100)} <b>{_outcome(value)}</b>"
    if trajectory.advantages is not None and len(trajectory.advantages):
        yield f"mean advantage <b>{trajectory.advantages.mean():.3f}</b>"
    if "turns" in trajectory.links:
        yield _some(int(trajectory.links["turns"]), "turn")
    yield _some(trajectory.actions, "action")
    yield f"ended by {trajectory.ended.value}"
    if not trajectory.trained:
        yield "not used in training"


def _outcome(outcome: Outcome | None) -> str:
    if isinstance(outcome, (int, float)):
        return f"{outcome:.4g}"
    return f"failed: {shown(outcome.reason, 600)}" if isinstance(outcome, Failed) else "not applicable"


def _reference(answer: Any) -> str:
    return answer if isinstance(answer, str) else plain_json(answer)


def _some(count: int, what: str, plural: str = "s") -> str:
    return f"{count:,} {what}{'' if count == 1 else plural}"

