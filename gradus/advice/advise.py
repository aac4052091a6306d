"""Advice: the first rule that applies, its recipes with reasons and commands, and the measurements that support the rule."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.advice.asked import Asked, asked_of, facts_of, rule_rate
from gradus.advice.facts import Facts, reads_text
from gradus.advice.measured import Row, row_of, row_of_pair
from gradus.advice.rule import Choice, Rule, numbers
from gradus.advice.rules import RULES
from gradus.comparison.contestants import check
from gradus.comparison.experiment import Elsewhere, arm_of
from gradus.recipe import index
from gradus.recipe.compatibility import check_fit
from gradus.training.course import staged
from gradus.training.launch import judgeable
from gradus.types import UserError, command

MOST = 3  # largest number of advised recipes


@dataclass(frozen=True)
class Named:
    """An advised recipe in the words of `gradus compare`, the reason, and the command that trains it."""

    recipe: str
    why: str
    command: str


@dataclass(frozen=True)
class Advice:
    """The answer to a question.

    `rule`: the rule that applies; None if no rule applies. `also`: further rules that apply. `unprobed`: the reason why nothing was sampled.
    """

    asked: Asked
    facts: Facts
    unprobed: str
    rule: Rule | None
    choices: tuple[Named, ...]
    also: tuple[Rule, ...]
    evidence: tuple[Row, ...]
    next: str  # the command of the next step
    misfits: tuple[tuple[str, str], ...] = ()  # recipes of the rule that do not fit, each with the reason

    @property
    def sure(self) -> bool:
        """Whether measurements on a ground support the first recipe."""
        return bool(self.evidence) and bool(self.choices)

    def document(self) -> dict[str, Any]:
        """Returns the advice as plain values."""
        return {
            "facts": self.facts.known(),
            "unprobed": self.unprobed,
            "rule": None if self.rule is None else {"name": self.rule.name, "when": [str(at) for at in self.rule.when]},
            "recipes": [vars(choice) for choice in self.choices],
            "also": [{"rule": rule.name, "recipe": rule.choices[0].recipe} for rule in self.also],
            "evidence": [row.document() for row in self.evidence],
            "misfits": [{"recipe": recipe, "lacks": lacks} for recipe, lacks in self.misfits],
            "next": self.next,
        }


def ruled(facts: Facts, rules: Sequence[Rule] = RULES) -> list[Rule]:
    """Returns the rules that apply, in the order of the table."""
    return [rule for rule in rules if rule.holds(facts)]


def advised(asked: Asked) -> Advice:
    """Returns the advice for a question. Raises UserError if the task or the model's folder cannot be read."""
    facts, unprobed = facts_of(asked)
    held = ruled(facts)
    fitting: list[Choice] = []
    misfits: list[tuple[str, str]] = []
    known = numbers(facts, rule_rate(asked.plan))
    for choice in dict.fromkeys(choice for rule in held[:1] + held[-1:] for choice in rule.choices):
        made = _filled(choice, known)
        if made.recipe in {one.recipe for one in fitting} or len(fitting) == MOST:
            continue
        lacks = _lacks(made, asked)
        misfits += [(made.recipe, lacks)] if lacks else []
        fitting += [] if lacks else [made]
    fitting = fitting or ([] if reads_text(asked.task) else others(asked))
    rule = held[0] if held else None
    named_first = rule is not None and fitting[:1] == [_filled(rule.choices[0], known)]
    evidence = evidence_of(rule) if rule is not None and named_first else ()
    choices = tuple(Named(choice.recipe, choice.why, train(choice.recipe, asked)) for choice in fitting)
    return Advice(asked, facts, unprobed, rule, choices, _also(held), evidence, following(choices, asked, bool(evidence)), tuple(misfits))


def _filled(choice: Choice, known: Mapping[str, str]) -> Choice:
    """Returns the choice, with numbers in place of the {names} in its recipe."""
    return replace(choice, recipe=choice.recipe.format(**known))


def evidence_of(rule: Rule) -> tuple[Row, ...]:
    """Returns the measured rows of a rule."""
    pair = row_of_pair(rule.pair, rule.name) if rule.pair else None
    return (*(row for ground in rule.grounds if (row := row_of(ground)) is not None), *([pair] if pair is not None else []))


def _also(held: Sequence[Rule]) -> tuple[Rule, ...]:
    """Returns the further rules that apply and that are measured on a ground."""
    return tuple(rule for rule in held[1:] if rule.grounds)


def _lacks(choice: Choice, asked: Asked) -> str:
    """Returns the reason why a recipe does not fit the task; "" if it fits."""
    try:
        recipe = asked.experiment.plan(arm_of(choice.recipe), 0).recipe
        if not staged(recipe):
            check_fit(recipe, asked.task if recipe.environment is None else replace(asked.task, environment=recipe.environment))
            judgeable(recipe, asked.task)
    except UserError as error:
        return str(error)
    return ""


def others(asked: Asked) -> list[Choice]:
    """Returns the first recipes of the registry that fit a task, each with its description.

    These recipes are used if no rule applies to the task, such as a task for flow generators.
    """
    known = (Choice(row["key"], row["about"]) for row in index.read()["recipes"])
    return list(itertools.islice((choice for choice in known if _builds(choice, asked)), MOST))


def _builds(choice: Choice, asked: Asked) -> bool:
    """Whether a recipe fits the task. Builds the recipe's players for this check."""
    try:
        check(asked.experiment.plan(arm_of(choice.recipe), 0), asked.task)
    except UserError:
        return False
    return True


def train(recipe: str, asked: Asked) -> str:
    """Returns the command that trains a recipe with the settings of a question. `recipe`: in the words of `gradus compare`."""
    arm = arm_of(recipe)
    own = [word for name, value in arm.fields for word in (f"--{name}", value)]
    return command("train", arm.recipe, *own, *terms(asked, {name for name, _ in arm.fields}))


def terms(asked: Asked, taken: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """Returns the settings of a question as words of a command, without the fields in `taken`."""
    made = asked.experiment
    if made.ground is not None:
        return ["--ground", made.ground]
    words = ["--task", str(made.task), *(word for name, value in made.task_options for word in (f"--task.{name}", value))]
    words += ["--model", made.model] if made.model is not None else []
    words += ["--profile", made.profile] if made.profile is not None else []
    words += [word for text in made.reward if "reward" not in taken for word in ("--reward", text)]
    return words + [word for name, value in made.fields if name not in taken for word in (f"--{name}", value)]


def following(choices: Sequence[Named], asked: Asked, sure: bool) -> str:
    """Returns the command of the next step.

    If measurements support the advised recipes (`sure`), or if the question names further tasks, this command compares the recipes. Otherwise it is a race
    between them.
    """
    made = asked.experiment
    words = terms(asked)
    if made.ground is None:
        words += ["--measure", made.measure] if made.measure != "accuracy" else []
        words += [word for other in made.others for word in ("--also", _also_words(other))]
    if (sure or made.others) and len(choices) > 1:
        return command("compare", *(choice.recipe for choice in choices), *words, "--seeds", "3")
    return command("race", *words, "--budget", "1h")


def _also_words(other: Elsewhere) -> str:
    """Returns a further task in the words of `gradus compare`."""
    return " ".join([f"{other.name}={other.task}", *(word for name, value in other.options for word in (f"--{name}", value))])


def advise(task: Any = None, *, ground: str | None = None, **how: Any) -> dict[str, Any]:
    """Advises three recipes for a task, each with a reason and a command, as a document; see `gradus advise --help`.

    Args: `task`: as on the command line. `ground`: a proving ground in place of a task. `how`: model, reward, measure, others, task_options, fields (as
    text), profile, device, noisy (whether verdicts can be wrong), problems and samples (the size of the probe; problems=0: no probe). Returns: {"facts",
    "unprobed", "rule", "recipes": [{"recipe", "why", "command"}], "also", "evidence", "misfits", "next"}.
    Raises UserError for a task or a model that cannot be read.
    """
    return advised(asked_of(task=task, ground=ground, **how)).document()
