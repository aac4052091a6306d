"""Tasks of the package reasoning-gym, `reasoning_gym:NAME`, with its generators, its curricula as levels, and its scorers as verifiers.

https://github.com/open-thought/reasoning-gym. The problem of seed n is item 0 of `reasoning_gym.create_dataset(NAME, seed=n, size=1)`.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from io import StringIO
from random import Random
from typing import Any

from gradus.tasks.generated import Draft, Generated, check_level
from gradus.tasks.packages import imported
from gradus.tasks.packages.options import Pairs, pairs_of, shown, values
from gradus.tasks.packages.plain_reading import read_plainly
from gradus.tasks.packages.private_random import PrivateRandom
from gradus.types import Failed, FailureKind, Frozen, Outcome, Problem, Sampling, UserError, unknown
from gradus.types.parts import Task

SHARE = 0.25  # share of all questions that are held out. About 1 / SHARE draws find one; some draws take 0.2 s
LARGE = frozenset({"arc_agi", "codeio", "figlet_font", "group_anagrams", "spell_backward", "word_ladder"})
"""Tasks whose constructor reads a large file and draws no random number. So one data set makes the problems of all seeds."""
REFUSED = {"composite": "it mixes other tasks; mix them with --task reasoning_gym:NAME:1,reasoning_gym:NAME:1"}
HASHED = frozenset({"isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder"})
"""In version 0.1.19, the problems or answers of these tasks depend on the order of a set, and so on Python's hash seed."""
FAULTY = {
    "game_of_life_halting": "accepts every answer",
    "puzzle24": "accepts any four allowed numbers that make 24, even if the puzzle gives other numbers",
}
"""Tasks whose scorer accepts wrong answers in version 0.1.19."""
TAGS = "<answer>?</answer>"
PARTS = ("tags", "line", "text")


def task(name: str, level: int | None = None, config: str = "", answer: str = "tags", system: str | None = None) -> Task:
    """Makes a task of reasoning-gym. The scorer of the task judges the answer. Some scorers give partial credit.

    `level` sets every attribute of the curriculum to this level (0 is the lowest). An attribute with fewer levels gets its highest level. Without a
    `level` the default configuration is used. `config` sets fields of the configuration: key=value,key=value or a JSON object.

    `answer` names the part of a completion that is scored. "tags" is the text in the last <answer>...</answer>, "line" is the last line, and "text" is the
    whole completion. `system` is a system message, or the name of a prompt of the package. Without `system`, the package's prompt "default" asks for the tags.
    Raises UserError for an unknown name, level or field, and for a value that the configuration does not accept.
    """
    known = imported("reasoning_gym").factory.DATASETS
    full = f"reasoning_gym:{name}"
    if name in REFUSED:
        raise UserError(f"{full} is not offered: {REFUSED[name]}")
    if name not in known:
        raise unknown("task of reasoning_gym", name, known.keys() - REFUSED.keys(), "List them with: gradus tasks reasoning_gym")
    if name in HASHED and os.environ.get("PYTHONHASHSEED", "random") in ("", "random"):
        raise UserError(
            f"the problems of {full} differ from process to process, because they depend on Python's hash seed; set the seed: PYTHONHASHSEED=0 gradus ..."
        )
    if name in FAULTY:
        warnings.warn(f"{full}: the scorer of reasoning-gym {FAULTY[name]}; a model learns to use this", stacklevel=2)
    if answer not in PARTS:
        raise unknown("part", answer, PARTS, "Give one with --task.answer")
    levels = levels_of(name)
    dataset = Dataset(name, config_of(full, config))
    if level is not None:
        check_level(full, level, levels)
        dataset.check_apart(level)
    first = dataset.item(level, 0)  # also refuses a configuration that makes no problem
    source = Generated(full, Make(dataset, answer), level, None if level is None else levels, share=SHARE)
    has = {"solution": first["answer"] is not None, "difficulty": level is not None}
    return Task(
        name=full,
        source=source,
        held_out=replace(source, held_out=True),
        verify=Scorer(dataset, answer),
        provides=frozenset(word for word, ok in has.items() if ok),
        about=f"{name} of the package reasoning-gym, judged by its scorer",
        system=message(system, answer),
        sampling=Sampling(max_tokens=256),
        level=level,
    )


def names() -> list[str]:
    """Returns the names of the tasks."""
    return sorted(imported("reasoning_gym").factory.DATASETS.keys() - REFUSED.keys())


@dataclass(frozen=True)
class Dataset:
    """A kind of problem with its configuration."""

    name: str
    config: Pairs = ()

    def item(self, level: int | None, seed: int) -> Mapping[str, Any]:
        """Returns the entry of a seed: question, answer, metadata. The entry is shared, so callers must not change it."""
        return _item(self, level, seed)

    def made(self, level: int | None, seed: int) -> Any:
        """Returns the package's data set of one problem. Raises UserError for a configuration that the package refuses."""
        factory = imported("reasoning_gym").factory
        settings = {"seed": seed, "size": 1, **values(self.config)}
        kind, settings_class = factory.DATASETS[self.name]
        try:
            if level is None:
                return kind(config=settings_class(**settings))
            curriculum = factory.create_curriculum(self.name)
            curriculum.set_global_level(level)
            return kind(config=curriculum.generate_configuration(settings))
        except Exception as error:  # the package checks its values by assertions
            given = shown(self.config) or "its default configuration"
            at = "" if level is None else f" at level {level}"
            raise UserError(
                f"reasoning_gym:{self.name}{at} does not accept {given}: {str(error) or type(error).__name__}; change --task.config or "
                "--task.level"
            ) from error

    def check_apart(self, level: int) -> None:
        """Raises UserError if the configuration sets a field that the level also sets."""
        curriculum = imported("reasoning_gym").factory.create_curriculum(self.name)
        kinds = ("field_name", "lower_field_name", "upper_field_name")
        set_by_level = {str(getattr(attribute, kind, None)) for attribute in curriculum.attributes.values() for kind in kinds}
        if both := sorted(set_by_level & dict(self.config).keys()):
            raise UserError(f"reasoning_gym:{self.name}: level {level} and --task.config both set {both[0]}; leave one of them out")


@lru_cache(maxsize=32)
def _template(dataset: Dataset, level: int | None) -> Any:
    """Returns the data set whose scorer judges the answers. If the name of the data set is in LARGE, this data set also makes the problems of all seeds."""
    read_plainly()
    with PrivateRandom(0).lent(), redirect_stdout(StringIO()):
        return dataset.made(level, 0)


@lru_cache(maxsize=4096)
def _item(dataset: Dataset, level: int | None, seed: int) -> Mapping[str, Any]:
    template = _template(dataset, level)
    with PrivateRandom(seed).lent(), redirect_stdout(StringIO()):  # some draw from the global generators, and some print
        if dataset.name in LARGE:
            made = copy.copy(template)
            made.seed = seed
        else:
            made = dataset.made(level, seed)
        return made[0]


@dataclass(frozen=True)
class Make:
    """Makes a draft: draws a seed and takes the package's entry for this seed."""

    dataset: Dataset
    answer: str

    def __call__(self, rng: Random, level: int | None) -> Draft:
        seed = rng.getrandbits(32)
        entry = self.dataset.item(level, seed)
        known, form = entry["answer"], TAGS if self.answer == "tags" else "?"
        solution = None if known is None else form.replace("?", str(known))
        return Draft(entry["question"], None if known is None else str(known), solution, entry["question"], Frozen(seed=seed))


@dataclass(frozen=True)
class Scorer:
    """A verifier that returns the package's score of an answer. A problem's `meta` contains the seed of its entry. From this seed the package makes the entry
    again.
    """

    dataset: Dataset
    answer: str = "tags"

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        level = problem.meta.get("difficulty")
        entry = self.dataset.item(level, problem.meta["seed"])
        if entry["question"] != problem.question:
            return Failed(f"this version of reasoning-gym makes another question from seed {problem.meta['seed']}; use the run's version")
        data, answer = _template(self.dataset, level), said(completion, self.answer)
        try:
            return score(data, answer, entry)
        except Exception as error:
            try:
                score(data, entry["answer"], entry)
            except Exception:
                return Failed(f"the scorer of {problem.task} raised {type(error).__name__}: {error}"[:300], FailureKind.RAISED)
            return 0.0  # the scorer can read the right answer, so only this answer is unreadable


def score(data: Any, answer: str | None, entry: Mapping[str, Any]) -> float:
    """Returns the score of the package. The scorer may change the entry, so it gets a copy. The text that the scorer prints is dropped."""
    with redirect_stdout(StringIO()):
        return float(data.score_answer(answer=answer, entry=copy.deepcopy(dict(entry))))


def said(completion: str, part: str) -> str | None:
    """Returns the answer in a completion. If `part` is "tags", the package extracts the answer; None if the completion has no tags."""
    if part == "text":
        return completion.strip()
    if part == "line":
        return next((line.strip() for line in reversed(completion.splitlines()) if line.strip()), "")
    read = completion[: completion.rfind("</answer>") + len("</answer>")] if "</answer>" in completion else ""  # the rest holds no answer
    found: str | None = imported("reasoning_gym").utils.extract_answer(read)
    return found


def levels_of(name: str) -> tuple[int, int] | None:
    """Returns the lowest and the highest level of the curriculum; None if there is no curriculum."""
    factory = imported("reasoning_gym").factory
    if not factory.has_curriculum(name):
        return None
    return 0, max(len(attribute.levels) for attribute in factory.create_curriculum(name).attributes.values()) - 1


def message(system: str | None, answer: str) -> str | None:
    """Returns the text of the system message, or None if there is none.

    If `system` is the name of a system message of the package, returns that message; any other `system` is the text itself. If `system` is None,
    returns the package's message "default" if `answer` is "tags", and None for any other `answer`.
    """
    prompts: dict[str, str] = imported("reasoning_gym").utils.SYSTEM_PROMPTS
    if system is None:
        return prompts["default"] if answer == "tags" else None
    return prompts.get(system, system) or None


def config_of(name: str, text: str) -> Pairs:
    """Returns the fields of a configuration in `text`. Raises UserError if the text cannot be read or names an unknown field."""
    given = pairs_of(name, text)
    settings = imported("reasoning_gym").factory.DATASETS[name.partition(":")[2]][1]
    allowed = [field.name for field in fields(settings) if field.init and field.name not in ("seed", "size")]
    for field, _ in given:
        if field not in allowed:
            raise unknown(f"field of {name}", field, allowed, "Set fields with --task.config key=value,key=value")
    return given
