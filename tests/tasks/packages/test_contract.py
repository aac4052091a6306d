"""Tasks of other packages: how they are named, found and asked for."""

from __future__ import annotations

import sys

import pytest

from gradus.tasks import packages
from gradus.training.plan import TASKS
from gradus.types import UserError


@pytest.fixture
def gem_like(monkeypatch):
    monkeypatch.setitem(packages.PACKAGES, "gem_like", "a package for this test")


def test_a_prefix_with_a_name_is_a_task(gem_like):
    assert packages.named("gem_like:game:Guess-v0")
    assert "gem_like:x" in TASKS
    assert not any(packages.named(spec) for spec in ("gem_like", "gem_like:", "other:x", "gem_like:x:3,gem_like:y:1", "file.py:task"))


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "no_such_package_here", None)
    with pytest.raises(UserError, match="no_such_package_here"):
        packages.imported("no_such_package_here")
    with pytest.raises(UserError, match=r'pip install "gradus\[gymnasium\]"'):
        packages.imported("surely_not_installed", "gymnasium")


def test_a_broken_package_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import surely_not_installed")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="cannot be imported: No module named 'surely_not_installed'"):
        packages.imported("broken_package")


def test_a_package_without_a_list_of_names_says_so(gem_like, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradus.tasks.packages.gem_like", object())
    with pytest.raises(UserError, match="names of the tasks of gem_like cannot be listed"):
        packages.names_of("gem_like")
