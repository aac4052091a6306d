"""The folder of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradus.runtime.cache import cache_folder


def test_the_cache_lies_where_the_system_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder("results") == Path("/somewhere/gradus/results")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder("results") == Path.home() / ".cache" / "gradus" / "results"
