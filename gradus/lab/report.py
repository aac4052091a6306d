"""The report of a run as one HTML page without other files: results, curves, sample rollouts, recipe and provenance."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from gradus.lab import rollouts
from gradus.lab.atomic_files import room, write
from gradus.lab.curves import Series, chart
from gradus.lab.folder import ROLLOUTS, RunFolder
from gradus.lab.live import duration
from gradus.types import Failed, Group, Outcome, Problem, Trajectory, without_aside

NAME = "report.html"
_TEXT_LIMIT = 6000  # characters shown of one text; the rollouts hold the whole text
_TEMPLATE = Path(__file__).with_name("report.html")

_CURVES: Sequence[tuple[str, Sequence[tuple[str, str]]]] = (
    ("Accuracy", (("held_out/accuracy", "held out"), ("held_out/greedy", "held out, greedy"), ("accuracy", "training"))),
    ("Length", (("length", "actions"), ("held_out/length", "held out"))),
    ("Entropy", (("entropy", "nats per action"),)),
    ("KL to the reference", (("kl", "nats per action"),)),
    ("Clipped share", (("clip_share", "of actions"),)),
    ("Auxiliary groups", (("aside/reward", "reward"), ("aside/accuracy", "accuracy"))),
)

Metrics = Sequence[Mapping[str, Any]]


def write_report(run: RunFolder | Path | str) -> Path:
    """Writes `report.html` into the folder of a finished or running run. Returns its path."""
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    recipe, metrics = folder.recipe(), folder.metrics()
    method = recipe.get("recipe", recipe)
    title = " on ".join(_clean(str(part)) for part in (method.get("key"), recipe.get("task")) if part)
    page = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(title or folder.path.name),
        about=html.escape(_clean(str(method.get("about") or ""))),
        tiles=_tiles(metrics, folder.timings()),
        curves=_curves(metrics),
        samples=_samples(folder.path / ROLLOUTS),
        recipe=_table(flat(recipe)),
        provenance=_table(flat(folder.provenance())),
    )
    target = folder.path / NAME
    with room(folder.path, NAME):
        write(target, page.encode("utf-8", "replace"), synced=False)
    return target


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(dotted path, text) of every value of a document; a part gives the name of its class, then its fields."""
    if isinstance(value, Mapping) and set(value) == {"map"}:
        yield from flat(value["map"], path)
    elif isinstance(value, Mapping) and set(value) == {"set"}:
        yield from flat(value["set"], path)
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            if name in ("part", "function"):
                yield path, item["name"] if isinstance(item, Mapping) else str(item).rpartition(":")[2]
            else:
                yield from flat(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list, tuple)) for item in value):
        for index, item in enumerate(value):
            yield from flat(item, f"{path}.{index}")
    elif isinstance(value, (list, tuple)):
        yield path, " ".join(str(item) for item in value)
    elif value is not None:
        yield path, str(value)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{_text(name)}</td><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _tiles(metrics: Metrics, timings: Metrics) -> str:
    tokens = sum(row.get("tokens/rollout") or 0 for row in metrics)
    seconds = sum(value for row in timings for name, value in row.items() if name != "step" and isinstance(value, (int, float)))
    steps = len(timings) or len(metrics)
    facts = [
        ("steps", f"{steps:,}"),
        ("reward, first to last", _way(metrics, "reward")),
        ("held-out accuracy", _way(metrics, "held_out/accuracy")),
        ("held-out greedy", _way(metrics, "held_out/greedy")),
        ("tokens sampled", f"{tokens:,}"),
        ("time in steps", duration(seconds)),
        ("failed trajectories", f"{sum(row.get('failed') or 0 for row in metrics):,}"),
    ]
    return "".join(f'<div class="tile"><span class="soft">{name}</span><b>{value}</b></div>' for name, value in facts if value)


def _way(metrics: Metrics, name: str) -> str:
    values = [row[name] for row in metrics if row.get(name) is not None]
    return f"{values[0]:.3f} → {values[-1]:.3f}" if values else ""


def _curves(metrics: Metrics) -> str:
    components = list(dict.fromkeys(name for row in metrics for name in row if name.startswith("reward/")))
    reward = ("Reward", [("reward", "combined"), *((name, name.removeprefix("reward/")) for name in components)])
    charts = [chart(title, [_series(metrics, name, label) for name, label in lines]) for title, lines in (reward, *_CURVES)]
    return "".join(charts) or '<p class="soft">No step is done yet.</p>'


def _series(metrics: Metrics, name: str, label: str) -> Series:
    points = tuple((row["step"], row[name]) for row in metrics if row.get(name) is not None)
    return Series(label, points, dots=name.startswith("held_out/"))


def _samples(folder: Path) -> str:
    steps = rollouts.stored(folder)
    chosen = dict.fromkeys(steps[i] for i in (0, len(steps) // 2, len(steps) - 1)) if steps else {}
    parts = [f"<h3>Step {step}</h3>{_sample(groups)}" for step, groups in rollouts.scan(folder, list(chosen))]
    return "".join(parts) or '<p class="soft">No rollout is stored.</p>'


def _sample(groups: Sequence[Group]) -> str:
    """The group of the step with the widest range of rewards: its problem, its best and its worst trajectory."""
    judged = [(sorted(t.value for t in g.trajectories if t.failed is None), g) for g in without_aside(groups) or groups]
    spread = [(values[-1] - values[0], g) for values, g in judged if values]
    if not spread:
        return _failures(groups)
    group = max(spread, key=lambda pair: pair[0])[1]
    ordered = sorted((t for t in group.trajectories if t.failed is None), key=lambda t: t.value)
    pair = [("best", ordered[-1])] + ([("worst", ordered[0])] if len(ordered) > 1 else [])
    return _prompt(ordered[-1].problem) + '<div class="pair">' + "".join(_article(kind, t) for kind, t in pair) + "</div>"


def _failures(groups: Sequence[Group]) -> str:
    failed = [t for g in groups for t in g.trajectories if t.failed is not None]
    if not failed:
        return '<p class="soft">This step has no trajectory.</p>'
    return _prompt(failed[0].problem) + f'<div class="pair">{_article("worst", failed[0])}</div>'


def _prompt(problem: Problem) -> str:
    said = problem.text if problem.text is not None else "\n\n".join(f"{m.get('role')}: {m.get('content')}" for m in problem.messages)
    return f'<pre class="prompt">{_text(said)}</pre>'


def _article(kind: str, trajectory: Trajectory) -> str:
    facts = [f"reward <b>{_outcome(trajectory.reward)}</b>"]
    facts += [f"{_text(name)} <b>{_outcome(value)}</b>" for name, value in trajectory.components.items()]
    if trajectory.advantages is not None and len(trajectory.advantages):
        facts.append(f"mean advantage <b>{trajectory.advantages.mean():.3f}</b>")
    facts += [f"{trajectory.actions} actions", f"ended by {trajectory.ended.value}"]
    said = _text(trajectory.completion) or '<span class="soft">no text</span>'
    return f'<article class="{kind}"><header>{" · ".join(facts)}</header><pre>{said}</pre></article>'


def _outcome(outcome: Outcome | None) -> str:
    if isinstance(outcome, (int, float)):
        return f"{outcome:.4g}"
    return f"failed: {_text(outcome.reason)}" if isinstance(outcome, Failed) else "not applicable"


def _text(text: str) -> str:
    """Text for the page: escaped, without control characters, cut after `_TEXT_LIMIT` characters."""
    more = f"\n… {len(text) - _TEXT_LIMIT:,} more characters" if len(text) > _TEXT_LIMIT else ""
    return html.escape(_clean(text[:_TEXT_LIMIT])) + more


def _clean(text: str) -> str:
    return "".join(c if c in "\n\t" or (ord(c) >= 32 and ord(c) != 127) else "\ufffd" for c in text)
