"""Tasks from packages that people already use, named `package:NAME`. Every package is an extra and is imported on use.

The module `gradus.tasks.packages.<package>` has a function `task(name, **options) -> Task`; its keywords are the options `--task.OPTION`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradus.types.parts import Task

PACKAGES: dict[str, str] = {
    "textarena": "a game for one player of the package textarena, such as textarena:GuessTheNumber-v0",
    "verifiers": "an installed environment of the package verifiers, judged by its own rewards",
}
"""Prefix of a task's name -> one line for `gradus tasks`. The prefix is also the name of the module, of the package and of the extra."""


def named(spec: str) -> bool:
    """Whether `spec` names a task of a package: `package:NAME`, without a comma, which would separate the parts of a mixture."""
    prefix, colon, name = spec.partition(":")
    return bool(colon and name and prefix in PACKAGES and "," not in spec)


def maker(spec: str) -> Callable[..., Task]:
    """The function that makes the task of `package:NAME`; its parameters are the options of the task."""
    prefix, _, name = spec.partition(":")
    return partial(importlib.import_module(f"gradus.tasks.packages.{prefix}").task, name)


def imported(package: str, extra: str | None = None) -> Any:
    """The package. Raises UserError with the command that installs it, or with the reason why its import fails."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        from gradus.types import UserError

        extra = extra or package
        if isinstance(error, ModuleNotFoundError) and error.name == package.partition(".")[0]:
            raise UserError(f'tasks of {extra} need the package {package}: pip install "gradus[{extra}]"') from None
        raise UserError(f'the package {package} cannot be imported: {error}; install it anew: pip install "gradus[{extra}]"') from error
