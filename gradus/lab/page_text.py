"""Text for the report: escaped, without control characters, cut to a length that is said."""

from __future__ import annotations

import html
from collections.abc import Iterable

_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def clean(text: str) -> str:
    """The text with control characters replaced."""
    return text.translate(_CONTROLS)


def shown(text: str, most: int) -> str:
    """Text for the page: escaped, without control characters, cut after `most` characters."""
    more = f"\n… {len(text) - most:,} more characters" if len(text) > most else ""
    return html.escape(clean(text[:most])) + more


def table(rows: Iterable[tuple[int, str, str]], most: int = 400, limit: int = 6000) -> str:
    """Rows of (depth, name, text) as a table with indented names, at most `most` of them."""
    rows = list(rows)
    cells = "".join(
        f'<tr><td style="--d:{depth}">{shown(name, limit)}</td><td>{shown(text, limit)}</td></tr>' for depth, name, text in rows[:most]
    )
    more = f'<p class="soft">{len(rows) - most:,} more rows are left out.</p>' if len(rows) > most else ""
    return f"<table>{cells}</table>{more}"
