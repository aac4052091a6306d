"""Tasks from packages that people already use, named `package:NAME`. Every package is an optional extra, and is imported at its first use.

The module `gradus.tasks.packages.<package>` has a function `task(name, **options) -> Task`; the keyword arguments of this function are the options
`--task.OPTION`. The module's function `names() -> list[str]`, if it exists, lists the names for `gradus tasks PACKAGE`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradus.types.parts import Task

PACKAGES: dict[str, str] = {
    "gem": "a game of the package gem-llm",
    "gymnasium": "an environment of the package gymnasium, or of one that registers its environments there; a turn is a step",
    "reasoning_gym": "a generator of the package reasoning-gym, judged by its scorer",
    "textarena": "a game for one player of the package textarena, such as textarena:GuessTheNumber-v0",
    "verifiers": "an installed environment of the package verifiers, judged by its own rewards",
}
"""Prefix of a task's name -> one line for `gradus tasks`. The prefix is also the name of the module, of the package and of the extra."""


def named(spec: str) -> bool:
    """Returns whether `spec` names a task of a package: `package:NAME`. A text with a comma names a mixture, so the result is False."""
    prefix, colon, name = spec.partition(":")
    return bool(colon and name and prefix in PACKAGES and "," not in spec)


def maker(spec: str) -> Callable[..., Task]:
    """Returns the function that makes the task of `package:NAME`; its parameters are the options of the task."""
    prefix, _, name = spec.partition(":")
    return partial(importlib.import_module(f"gradus.tasks.packages.{prefix}").task, name)


def names_of(package: str) -> list[str]:
    """Returns the names of a package's tasks, without the prefix. Raises UserError if the package is unknown, is not installed, or has no list of names."""
    from gradus.types import UserError, unknown

    if package not in PACKAGES:
        raise unknown("package", package, PACKAGES, "List the tasks of one of these packages, or leave the name out")
    module = importlib.import_module(f"gradus.tasks.packages.{package}")
    if not hasattr(module, "names"):
        raise UserError(f"the names of the tasks of {package} cannot be listed; see the package's own documentation")
    names: list[str] = module.names()
    return names


def imported(package: str, extra: str | None = None) -> Any:
    """Imports the package and returns it. Raises UserError with the command that installs the package, or with the reason why its import fails."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        from gradus.types import UserError

        extra = extra or package
        if isinstance(error, ModuleNotFoundError) and error.name == package.partition(".")[0]:
            raise UserError(f'tasks of {extra} need the package {package}: pip install "gradus[{extra}]"') from None
        raise UserError(f'the package {package} cannot be imported: {error}; install it again: pip install "gradus[{extra}]"') from error
