"""The exception for errors that a user can correct, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable


class UserError(ValueError):
    """An error that the user can correct.

    The message names the fault, the field or line of the fault, and the remedy. The command line prints the message and exits with code 2.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the closest known names as text, such as ' (did you mean grpo?)'; '' if no known name is similar. Case and leading dashes do not matter."""
    spelled, plain = {k.lower().lstrip("-"): k for k in known}, name.lower().lstrip("-")
    begun = [k for k in spelled if len(plain) > 2 and k.startswith(plain)][:2]
    found = [spelled[k] for k in difflib.get_close_matches(plain, list(spelled), n=2, cutoff=0.55) or begun]
    return f" (did you mean {' or '.join(found)}?)" if found else ""


class RaisedElsewhere(Exception):
    """An exception of user code in another process. The text of the error already names the exception, the file and the line."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "", first: Iterable[str] = ()) -> UserError:
    """The error for an unknown name: 'unknown recipe "grop" (did you mean grpo?)', followed by the remedy `where`.

    The message lists the known names. If there are more than 24 known names, the message lists only the names in `first` and the number of the other names.
    If `first` is also empty, the message lists no names.
    """
    known, some = list(known), sorted(first)
    listed = ", ".join(sorted(known)) if len(known) <= 24 else f"{', '.join(some)}, and {len(known) - len(some)} others" if some else ""
    listing = f"; known: {listed}" if listed else ""
    return UserError(f'unknown {kind} "{name}"{nearest(name, known)}{listing}{". " + where if where else ""}')


def command(*words: object) -> str:
    """A command of this library as a user types it: `gradus` followed by the words, which are quoted for a shell.

    >>> command("resume", "runs/my run")
    "gradus resume 'runs/my run'"
    """
    return shlex.join(["gradus", *map(str, words)])
