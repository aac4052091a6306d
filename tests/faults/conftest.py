"""Processes that train, forked from one that has imported everything, so that each can be killed at little cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.forked import Forked


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    with Forked() as made:
        yield made
