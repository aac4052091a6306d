"""The one exception that is shown to a user as a sentence, and the near name that it suggests."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something that the user can mend: the message says what was wrong, where, and what to do. The command line prints it and exits with 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that names the closest known names, whatever their case and dashes: ' (did you mean grpo?)', or '' where nothing is close."""
    spelled, plain = {k.lower().lstrip("-"): k for k in known}, name.lower().lstrip("-")
    begun = [k for k in spelled if len(plain) > 2 and k.startswith(plain)][:2]
    found = [spelled[k] for k in difflib.get_close_matches(plain, list(spelled), n=2, cutoff=0.55) or begun]
    return f" (did you mean {' or '.join(found)}?)" if found else ""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UserError:
    """The error for a name that is not there: 'unknown recipe "grop" (did you mean grpo?)' plus the remedy `where`."""
    known = list(known)
    listing = f"; known: {', '.join(sorted(known))}" if 0 < len(known) <= 24 else ""
    return UserError(f'unknown {kind} "{name}"{nearest(name, known)}{listing}{". " + where if where else ""}')
