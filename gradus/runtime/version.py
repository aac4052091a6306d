"""The version of Gradus with its commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
STORED = "_version.py"
"""The file of the package in which a build stores its version and its commit. A checkout does not have it."""


def version() -> str:
    """Returns the version and, in brackets, the commit: "0.1.0 (commit 1a2b3c4)".

    Returns only the version if no build and no git repository names a commit.
    """
    from gradus import __version__

    found = commit()
    return f"{__version__} (commit {found})" if found else __version__


def commit(package: Path = PACKAGE) -> str:
    """Returns the commit of a package, or "".

    If the build of the package has stored a commit, returns this commit. Otherwise returns the commit of the checkout, with "-dirty" if files differ from the
    commit.
    """
    stored = package / STORED
    if stored.is_file():
        found = re.search(r"^__commit_id__ = .*'g?([0-9a-f]+)'$", stored.read_text(encoding="utf-8"), re.M)
        return found[1] if found else ""
    if not (package.parent / ".git").exists():  # an installed package may be in a folder within the checkout of another project
        return ""
    words = ["git", "-C", str(package.parent), "describe", "--tags", "--always", "--dirty"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
