"""Exports a run: its model as a folder, or its answers as data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from gradus.lab.atomic_files import PARTIAL
from gradus.lab.folder import ROLLOUTS, RunFolder, is_run
from gradus.lab.training_data import FORMS
from gradus.training.classifier import write_classifier
from gradus.training.model_card import write_card
from gradus.training.plan import model_of, stored_task
from gradus.types import UserError, command, unknown


def export(
    run: Path | str,
    target: Path | str,
    which: str = "final",
    *,
    form: str = "model",
    at_least: float | None = None,
    include_cut: bool = False,
    trust: bool = False,
    replace: bool = False,
) -> Path:
    """Writes a run's model as a folder that transformers can load, or its answers as a file (see `export_data`).

    The folder of a model also gets a model card (README.md) and a picture of the learning curve. The form "card" writes only these two files, into an existing
    folder. If a user edited the card there, this raises UserError, unless `replace` is set.

    Args: `run`: the run's folder. `target`: the folder or file to write. `which`: "final" or "best". `form`: "model", "card", "sft", "preference" or
    "rollouts". `at_least`: the smallest reward of an answer to imitate or to prefer; None: "sft" takes right answers. `include_cut`: whether to include
    answers that a limit cut off. `trust`: whether to export a run that another user made and that executes Python. `replace`: whether to replace an edited
    card.
    Returns: `target`.
    Raises: UserError if the target exists (for "card": if it does not exist), or if the run has no such model or answers.
    """
    if form not in FORMS:
        raise unknown("form of export", form, FORMS, "Give it with --as")
    if replace and form != "card":
        raise UserError("--replace works only with --as card, for an edited card; leave --replace out")
    if form not in ("model", "classifier", "card"):
        if which != "final":
            raise UserError(f"--best chooses a model, but --as is {form}, which exports no model; leave out --best or --as")
        return export_data(run, target, form, at_least, include_cut, trust=trust)
    if include_cut:
        raise UserError("--include-cut works only with --as sft or --as preference; leave it out for a model")
    if at_least is not None:
        raise UserError("--at-least works only with --as sft or --as preference; leave it out for a model")
    if form == "card":
        return _export_card(run, target, which, replace=replace)
    return _export_model(run, target, which, copy=shutil.copytree if form == "model" else write_classifier)


def export_data(
    run: Path | str, target: Path | str, form: str, at_least: float | None = None, include_cut: bool = False, *, trust: bool = False
) -> Path:
    """Writes the answers of a run's policy as `sft` or `preference` data (JSON lines or Parquet), or all its `rollouts` (Parquet).

    `at_least`: the smallest reward of an answer to imitate or to prefer; None: `sft` takes right answers. `include_cut`: whether to include answers that a
    limit cut off. If these answers are left out, their number is printed on standard error. `gradus.lab.training_data.demonstrations` and `preferences` choose the
    answers. Raises UserError if the file exists, or if the run has no such answers.
    """
    from gradus.lab import rollouts, training_data
    from gradus.lab.trajectory_table import step_table

    target, opened = Path(target), RunFolder.open(run)
    steps = rollouts.scan(opened.path / ROLLOUTS)
    if form == "rollouts":
        if include_cut:
            raise UserError("--include-cut works only with --as sft or --as preference; leave it out for rollouts, because all rollouts are exported")
        if at_least is not None:
            raise UserError("--at-least works only with --as sft or --as preference; leave it out for rollouts, because all rollouts are exported")
        if not rollouts.stored(opened.path / ROLLOUTS):
            raise UserError(f"{run} has no rollouts yet; continue the run: {command('resume', run)}")
        training_data.write_tables(target, (step_table(step, groups) for step, groups in steps))
        return target
    training_data.with_suffix(target, (".jsonl", ".parquet"))
    if not trust:
        opened.check_trusted()
    asked, cut = training_data.collect(steps, stored_task(opened).system, cut=include_cut)
    made = {"sft": training_data.demonstrations, "preference": training_data.preferences}[form](asked, at_least)
    training_data.write_rows(target, made)
    if told := training_data.told_of_cut(cut, form, at_least):
        print(told, file=sys.stderr)
    return target


def _export_model(run: Path | str, target: Path | str, which: str, copy: Callable[[Path, Path], object]) -> Path:
    """Writes the model by `copy`, and writes its card. Raises UserError if the target exists, or if the run has no such model."""
    target = Path(target)
    if target.exists():
        raise UserError(f"{target} exists already; name another folder, because an export does not overwrite files")
    source = _model(run, which)
    partial = target.with_name(PARTIAL + target.name)
    try:
        copy(source, partial)
        try:
            write_card(run, source, partial, name=target.name)
        except UserError as error:  # a model can also be used without a card
            print(f"no model card: {error}", file=sys.stderr)
        partial.rename(target)
    except OSError as error:
        raise UserError(f"cannot write the model to {target}: {error.strerror or error}; name another folder") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _export_card(run: Path | str, target: Path | str, which: str, *, replace: bool) -> Path:
    """Writes the card of a run's model into the folder `target` of the exported model."""
    if not Path(target).is_dir():
        raise UserError(f"{target} is not a folder, but --as card needs an exported model; export the model with: {command('export', run, target)}")
    write_card(run, _model(run, which), Path(target), replace=replace)
    return Path(target)


def _model(run: Path | str, which: str) -> Path:
    """Returns the folder of a run's "final" or "best" model. Raises UserError if the run has no such model."""
    if which == "best" and is_run(Path(run)) and RunFolder.open(run).model("best") is None:
        raise UserError(f"{run} has no best model, because no evaluation after the first gave a better score; leave --best out to export the last model")
    source = model_of(run, which)
    if source is None or not is_run(Path(run)):
        raise UserError(f"{run} contains no run; give the folder that you named with --run")
    return Path(source)
