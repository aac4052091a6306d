"""The rewards of single answers and the solve rates of problems over a run, for its report."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradus.lab import rollouts
from gradus.lab.axes import ticks
from gradus.lab.bars import bars, fan, stacked
from gradus.lab.curves import Series
from gradus.lab.outcomes import MOST, Outcomes, chosen_steps, outcomes
from gradus.lab.page_text import shown

FEW = 8  # if there are more different rewards than this, a figure shows quantiles or ranges
BINS = 50  # largest number of intervals of steps in the distribution by step
QUANTILES = ((0.1, "10 %"), (0.25, "25 %"), (0.5, "median"), (0.75, "75 %"), (0.9, "90 %"))
_RATES = ("0", "≤ 25 %", "≤ 50 %", "≤ 75 %", "< 100 %", "100 %")


def distributions(folder: Path) -> str:
    """Returns the section of a report about single rewards.

    The section shows the rewards by step, early and late rewards and solve rates, and the problems with the lowest solve rates.
    """
    steps = rollouts.stored(folder)
    wanted = chosen_steps(steps)
    found = outcomes(folder, set(wanted))
    if not found:
        return ""
    tenth = max(1, len(wanted) // 10)
    early, late = set(wanted[:tenth]), set(wanted[-tenth:])
    parts = [(_named(early), [o for o in found if o.step in early])]
    if early != late:
        parts.append((_named(late), [o for o in found if o.step in late]))
    read = f" {len(wanted)} of {len(steps):,} steps are read, evenly spaced." if len(steps) > MOST else ""
    title = '<h2>Rewards and solve rates</h2><p class="soft">Bars compare the first and the last tenth of the steps.'
    by_step = rewards_by_step(found)
    if not any(o.right for o in found) and any(r for o in found for r in o.rewards):
        none = " No answer earns a full reward of 1, so the page shows no solve rates."
        return f'{title}{read}{none}</p><div class="curves">{by_step}{_rewards(parts)}</div>'
    least, some = _least(found)
    return (
        f'{title}{read}</p><div class="curves">{by_step}{_rewards(parts)}{_rates(parts)}</div><details><summary>{some}</summary>{least}</details>'
    )


def _named(steps: set[int]) -> str:
    low, high = min(steps), max(steps)
    return f"step {low:,}" if low == high else f"steps {low:,} to {high:,}"


def rewards_by_step(found: Sequence[Outcomes]) -> str:
    """Returns the distribution of rewards over the steps. If there are few different values, shows the share of each value; else shows quantiles."""
    steps = sorted({o.step for o in found})
    rewards: dict[int, list[float | None]] = {step: [] for step in steps}
    for o in found:
        rewards[o.step] += o.rewards
    bins = [steps[i * len(steps) // min(BINS, len(steps)) : (i + 1) * len(steps) // min(BINS, len(steps))] for i in range(min(BINS, len(steps)))]
    held = [(float(near[len(near) // 2]), [r for step in near for r in rewards[step]]) for near in bins]
    held = [(step, some) for step, some in held if some]
    values = sorted({r for _, some in held for r in some if r is not None})
    if len(values) <= FEW:
        classes: list[float | None] = [*values, *([None] if any(None in some for _, some in held) else [])]
        names = [f"reward {value:.4g}" if value is not None else "no reward" for value in classes]
        parts = [Series(name, tuple((step, some.count(value) / len(some)) for step, some in held)) for name, value in zip(names, classes)]
        return stacked("Rewards of answers by step", parts, unit="share of answers")
    judged = [(step, [r for r in some if r is not None]) for step, some in held]
    judged = [(step, some) for step, some in judged if some]
    lines = [Series(name, tuple((step, quantile(some, share)) for step, some in judged)) for share, name in QUANTILES]
    return fan("Rewards of answers by step", lines, unit="reward, quantiles")


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the quantile of some values, with linear interpolation between neighbours (Hyndman and Fan, 1996, number 7).

    >>> quantile([4.0, 1.0, 2.0, 3.0], 0.5)
    2.5
    """
    order = sorted(values)
    place = share * (len(order) - 1)
    low = int(place)
    high = min(low + 1, len(order) - 1)
    return order[low] + (place - low) * (order[high] - order[low])


def _rewards(parts: Sequence[tuple[str, Sequence[Outcomes]]]) -> str:
    """Returns the share of answers by reward. If there are few different values, each value has a bar; else each interval has a bar."""
    values = sorted({r for _, groups in parts for o in groups for r in o.rewards if r is not None})
    few = len(values) <= FEW
    low, high = (values[0], values[-1]) if values else (0.0, 0.0)
    starts = ticks(low, high, 8)
    starts = starts if starts[0] <= low else [2 * starts[0] - starts[1], *starts]
    starts = starts[:-1] if starts[-1] >= high else starts
    labels = [f"{value:.4g}" for value in (values if few else starts)]
    failed = any(r is None for _, groups in parts for o in groups for r in o.rewards)
    series = []
    for name, groups in parts:
        rewards = [r for o in groups for r in o.rewards]
        counts = Counter(values.index(r) if few else max(bisect_right(starts, r) - 1, 0) for r in rewards if r is not None)
        shares = [counts[i] / max(len(rewards), 1) for i in range(len(labels))]
        series.append((name, [*shares, rewards.count(None) / max(len(rewards), 1)] if failed else shares))
    axis = "reward" if few else "reward, start of the range"
    return bars("Rewards of answers", [*labels, *(["no reward"] if failed else [])], series, axis=axis, unit="share of answers")


def _rates(parts: Sequence[tuple[str, Sequence[Outcomes]]]) -> str:
    """Returns a figure with the share of problems in each class of solve rates."""
    series = []
    for name, groups in parts:
        counts = Counter(rate_class(o.rate) for o in groups)
        series.append((name, [counts[i] / max(len(groups), 1) for i in range(len(_RATES))]))
    return bars("Solve rate per problem", _RATES, series, axis="share of right answers", unit="share of problems")


def rate_class(rate: float) -> int:
    """Returns the index of a solve rate in `_RATES`. The classes are 0 %, up to 25 %, up to 50 %, up to 75 %, below 100 %, and 100 %."""
    return 0 if rate <= 0 else 5 if rate >= 1 else min(math.ceil(rate * 4), 4)


def _least(found: Sequence[Outcomes], most: int = 10) -> tuple[str, str]:
    """Returns the problems with the lowest solve rate as a table, and the title of this table."""
    tally: dict[str, list[Any]] = {}
    for o in found:
        entry = tally.setdefault(o.problem, [0, 0, o.prompt, o.step])
        entry[0] += o.right
        entry[1] += len(o.rewards)
        entry[3] = o.step
    order = sorted(tally.items(), key=lambda item: (item[1][0] / item[1][1], -item[1][1]))[:most]
    never = sum(not right for right, *_ in tally.values())
    rows = "".join(
        f'<tr><td class="number">{right} of {count}</td><td class="number">{step:,}</td><td><span dir="auto">{shown(prompt, 200)}</span><br><span class="soft">'
        f"{shown(key, 80)}</span></td></tr>"
        for key, (right, count, prompt, step) in order
    )
    head = "<thead><tr><th>right answers</th><th>last at step</th><th>problem</th></tr></thead>"
    title = f"Problems with the lowest solve rate ({never:,} of {len(tally):,} never solved)"
    return f'<div class="wide"><table class="plain">{head}<tbody>{rows}</tbody></table></div>', title
