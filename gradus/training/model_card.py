"""The model card of an exported model: README.md in the form of the Hugging Face Hub, and the learning curve in the same folder.

A card contains the facts of a run: the base model, the task, the recipe with its changes, and the held-out result with its interval. The card also has the
seed, the steps, the tokens, the versions, and the command that repeats the run. A user must fill in licence, intended use and limits. The last line
contains a hash of the text above it, so the library can see whether a user has edited the card.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradus.lab import checkpoints
from gradus.lab.atomic_files import write
from gradus.lab.curves import Series
from gradus.lab.figures import of_given
from gradus.lab.folder import RunFolder, is_run
from gradus.lab.live import duration, title_of
from gradus.lab.page_text import clean
from gradus.lab.picture import picture
from gradus.lab.repeat import commands
from gradus.training.card_recipe import citation, formulas, recipe_tables
from gradus.types import UserError, command

CARD, CURVE = "README.md", "learning_curve.svg"
FILL = "**To fill in:**"
"""Marks the passages that only a person can write."""

_SEAL = re.compile(r"\n<!-- written by Gradus; sha256 of the text above: ([0-9a-f]{64}) -->\n\Z")
_MEASURES = {"held_out/accuracy": "accuracy", "held_out/greedy": "accuracy of greedy answers", "held_out/reward": "reward", "held_out/length": "length in actions"}
_DRAWN = (("held_out/accuracy", "held-out accuracy"), ("held_out/reward", "held-out reward"), ("accuracy", "accuracy in training"), ("reward", "reward in training"))

_SHARES = ("held_out/accuracy", "held_out/greedy", "accuracy")

Metrics = Sequence[Mapping[str, Any]]


def write_card(run: Path | str, model: Path, target: Path, *, name: str | None = None, replace: bool = False) -> Path:
    """Writes README.md and the learning curve of a run into the folder of an exported model. Returns the path of the card.

    Args: `model`: the model's folder in the run, which determines the step. `target`: the folder into which the card is written. `name`: the model's name
    (None: the name of `target`). `replace`: whether to replace a card that a user edited or wrote.
    Raises: UserError if a user edited or wrote the card and `replace` is not set.
    """
    folder, card = RunFolder.open(run), target / CARD
    if card.exists() and not replace and not untouched(card.read_text(encoding="utf-8", errors="replace")):
        raise UserError(f"{card} was written or edited by a user; move this file away, or replace it with: --as card --replace")
    drawn = curve(folder.metrics())
    if drawn is not None:
        write(target / CURVE, drawn.encode("utf-8", "replace"), synced=False)
    write(card, card_text(folder, model, target, name or target.resolve().name, pictured=drawn is not None).encode("utf-8", "replace"), synced=False)
    return card


def untouched(text: str) -> bool:
    """Whether a card is unchanged since Gradus wrote it."""
    found = _SEAL.search(text)
    return found is not None and found[1] == _hash(text[: found.start()])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def card_text(folder: RunFolder, model: Path, target: Path, name: str, *, pictured: bool = True) -> str:
    """Returns the text of the card. The last line of the card contains the hash."""
    stored, metrics, provenance = folder.recipe(), folder.metrics(), folder.provenance()
    recipe, step, loads = stored.get("recipe") or {}, step_of(folder, model), _loads_in_transformers(target)
    key, task = str(recipe.get("key") or "no recipe"), title_of("", str(stored.get("task") or "a task"))
    found = measured(metrics, step)
    given = of_given(metrics)
    tags = ("gradus", *(() if given else ("reinforcement-learning",)), key)
    shown = f"![Learning curve of the run]({CURVE})" if pictured else ""
    blocks = [
        "\n".join(front_matter(name, tags, task, loads, stored.get("model"), found)),
        f"# {_plain(name)}",
        f"This model was trained {'on given answers' if given else 'by reinforcement learning'}: the method is `{_plain(key)}`, the task is `{_plain(task)}`. "
        f"Gradus trained it for {step:,} step{'s' * (step != 1)} and wrote this card.",
        "## Results",
        *([shown] if shown else []),
        *results(metrics, step, task),
        "## Use",
        *_use(name, loads),
        "## Training",
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {_cell(value)} |" for name, value in facts(stored, metrics, folder.timings(), provenance, step))]),
        *(["This command repeats the run:", _code("\n".join(words), "sh")] if (words := commands(provenance)) else []),
        "## Method",
        f"`{_plain(key)}`: {_plain(str(recipe.get('about') or ''))}",
        *([_code("\n".join(lines))] if (lines := formulas(key)) else []),
        *recipe_tables(recipe),
        "## Citation",
        _code(citation(key), "bibtex"),
        "## Intended use",
        f"{FILL} the intended users and problems of the model, and the users and problems for which the model is not intended.",
        "## Limits",
        _limits(task, found),
        f"{FILL} known weaknesses, the behaviour on other languages and topics, risks.",
        "## Licence",
        f"{FILL} the licence of this model. The licences of the base model and of the training data may restrict it.",
    ]
    text = clean("\n\n".join(blocks)) + "\n"
    return f"{text}\n<!-- written by Gradus; sha256 of the text above: {_hash(text)} -->\n"


def step_of(folder: RunFolder, model: Path) -> int:
    """Returns the step of the checkpoint that contains the model. If no checkpoint contains the model, returns the number of finished steps."""
    saved = (number for number, path in checkpoints.steps(folder.path).items() if path.resolve() == model.resolve().parent)
    return next(saved, folder.done())


def measured(metrics: Metrics, step: int) -> Mapping[str, Any]:
    """Returns the last evaluation at `step` or earlier; an empty result if there is none.

    If `_judged` is False, shares of right answers are left out.
    """
    rows = [row for row in metrics if row["step"] <= step and any(row.get(name) is not None for name in _MEASURES)]
    left = () if _judged(metrics) else _SHARES
    return {name: value for name, value in rows[-1].items() if name not in left} if rows else {}


def _judged(metrics: Metrics) -> bool:
    """Whether shares of right answers are informative.

    The shares are informative if some answer was right, or if all held-out rewards are 0. The shares are not informative for a reward that never reaches 1.
    """
    graded = any(row.get("held_out/reward") for row in metrics)
    return not graded or any(row.get(name) for row in metrics for name in _SHARES)


def front_matter(name: str, tags: Sequence[str], task: str, loads: bool, base: Any, found: Mapping[str, Any]) -> Iterator[str]:
    """Gives the lines of the card's YAML head, including the lines of dashes before and after it."""
    yield "---"
    yield f"library_name: {'transformers' if loads else 'gradus'}"
    if loads:
        yield "pipeline_tag: text-generation"
    yield "license: unknown  # fill in, for example apache-2.0"
    if base:
        yield f"# base_model: OWNER/{_plain(base_name(base))}  # fill in the owner on the Hub and remove the first #"
    yield "tags:"
    yield from (f"- {json.dumps(tag)}" for tag in tags)
    if found.get("held_out/accuracy") is not None:
        yield "model-index:"
        yield f"- name: {json.dumps(name)}"
        yield "  results:"
        yield f"  - task: {{type: {'text-generation' if loads else 'reinforcement-learning'}}}"
        yield f"    dataset: {{name: {json.dumps(task)}, type: {json.dumps(task)}, split: held-out}}"
        yield f"    metrics: [{{type: accuracy, value: {found['held_out/accuracy']:.4f}, name: held-out accuracy}}]"
    yield "---"


def base_name(model: Any) -> str:
    """Returns the name of a base model: the name of its folder. If the model is in a run, the result is the name of the run's folder.

    >>> base_name("/models/Qwen3-0.6B")
    'Qwen3-0.6B'
    """
    path = Path(str(model))
    return next((above.name for above in path.parents if is_run(above)), path.name or str(model))


def results(metrics: Metrics, step: int, task: str) -> list[str]:
    """Gives a table of the measurements before the training and for this model, and a sentence about the intervals."""
    last = measured(metrics, step)
    first = next((row for row in metrics if row.get("held_out/problems") or row.get("held_out/accuracy") is not None), {})
    if not last:
        return ["The run has no evaluation on held-out problems."]
    count = last.get("held_out/problems")
    head = ["| measure | before training | this model | 95 % interval | held-out problems |", "| --- | ---: | ---: | --- | ---: |"]
    rows = []
    for name, label in _MEASURES.items():
        if last.get(name) is None:
            continue
        low, high = (last.get(f"held_out/{end}") if name == "held_out/accuracy" else None for end in ("low", "high"))
        bounds = f"{low:.3f} to {high:.3f}" if low is not None and high is not None else ""
        before = f"{first[name]:.3f}" if first.get(name) is not None and first["step"] == 0 else ""
        rows.append(f"| {label} | {before} | {last[name]:.3f} | {bounds} | {f'{count:,.0f}' if count else ''} |")
    told = f"Held-out problems of the task `{_plain(task)}`, which the training never used. "
    told += "The answers use the training temperature, except the greedy answers."
    if any("to" in row for row in rows) and count:
        told += " The interval covers the choice of the problems, not the seed of the training."
    if last["step"] != step:
        told += f" The evaluation belongs to step {last['step']:,}, the model to step {step:,}."
    return ["\n".join([*head, *rows]), told]


def facts(stored: Mapping[str, Any], metrics: Metrics, timings: Metrics, provenance: Mapping[str, Any], step: int) -> Iterator[tuple[str, str]]:
    """Returns the rows of the table about the training."""
    done = [row for row in metrics if row["step"] < step]
    recipe, versions, model = stored.get("recipe") or {}, provenance.get("versions") or {}, stored.get("model")
    yield "base model", base_name(model) if model else "the built-in model of Gradus"
    options = ", ".join(f"{name} {Path(str(value)).name or value}" for name, value in stored.get("task_options") or ())
    yield "task", title_of("", str(stored.get("task") or "")) + (f" ({options})" if options else "")
    for path, known in list((provenance.get("data") or {}).items())[:8]:
        yield "data", f"{Path(path).name}, {known.get('bytes', 0):,} bytes, SHA-256 {str(known.get('sha256', ''))[:16]}"
    yield "recipe", str(recipe.get("key"))
    yield "seed", str(stored.get("seed"))
    yield "steps", f"{step:,}"
    for name, label in (("rollouts", "answers"), ("tokens/rollout", "tokens sampled"), ("tokens/train", "tokens used in training")):
        if total := sum(row.get(name) or 0 for row in done):
            yield label, f"{total:,.0f}"
    seconds = sum(v for row in timings if row["step"] < step for n, v in row.items() if n != "step" and isinstance(v, (int, float)))
    yield "time in steps", f"{duration(seconds)} on {stored.get('device', 'cpu')}"
    yield "started", str(provenance.get("started") or "")
    code = f"{versions.get('gradus', 'unknown')}, source {versions.get('source', 'unknown')}"
    yield "Gradus", code + (f", commit {versions['commit']}" if versions.get("commit") else "")
    yield "packages", ", ".join(f"{name} {versions[name]}" for name in ("python", "torch", "transformers") if name in versions)


def curve(metrics: Metrics) -> str | None:
    """Returns the learning curve as an SVG document: held-out results with their intervals, and results of training steps.

    If there is no result, the losses are drawn. Returns None if there is no loss, either.
    """
    lines = []
    for name, label in _DRAWN:
        if name in _SHARES and not _judged(metrics):
            continue
        points = tuple((row["step"], row[name]) for row in metrics if row.get(name) is not None)
        ends = ((row["step"], row.get("held_out/low"), row.get("held_out/high")) for row in metrics) if name == "held_out/accuracy" else ()
        spans = tuple((step, low, high) for step, low, high in ends if low is not None and high is not None)
        lines.append(Series(label, points, name.startswith("held_out/"), spans))
    if not any(one.points for one in lines):
        losses = sorted({name for row in metrics for name in row if name.startswith("loss")})
        lines = [Series(name, tuple((row["step"], row[name]) for row in metrics if row.get(name) is not None)) for name in losses]
    judged = any(one.points for one in lines) and not lines[0].name.startswith("loss")
    drawn = any(one.points for one in lines)
    return picture("Learning curve", lines, unit="accuracy and reward" if judged else "loss") if drawn else None


def _use(name: str, loads: bool) -> list[str]:
    if not loads:
        return [_code(command("eval", _plain(name), "--task", "TASK"), "sh")]
    code = f'from transformers import AutoModelForCausalLM, AutoTokenizer\n\nmodel = AutoModelForCausalLM.from_pretrained({json.dumps(_plain(name))})\n'
    return [_code(f"{code}tokenizer = AutoTokenizer.from_pretrained({json.dumps(_plain(name))})", "python")]


def _limits(task: str, found: Mapping[str, Any]) -> str:
    count = found.get("held_out/problems")
    problems = f"{count:,.0f} held-out problems of `{_plain(task)}`" if count else f"the task `{_plain(task)}`"
    return f"The model was measured only on {problems}. No measurement covers safety, bias or other tasks."


def _loads_in_transformers(target: Path) -> bool:
    try:
        return bool(json.loads((target / "config.json").read_bytes()).get("architectures"))
    except (OSError, ValueError, AttributeError):
        return False


def _code(text: str, language: str = "") -> str:
    """Returns the text as a code block. The fence of the block is longer than any fence in the text."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _plain(text: str) -> str:
    """Returns the text on one line, so that the text cannot end a code span, a table or a YAML head."""
    return re.sub(r"\s+", " ", text).replace("`", "'").replace("<", "&lt;")


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")
