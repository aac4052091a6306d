"""What bubblewrap is asked for, and what is said where it cannot isolate."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest

from gradus.sandbox import bubblewrap
from gradus.sandbox.bubblewrap import ROOM, command, missing, unused_user
from gradus.sandbox.shown import interpreter, within


@pytest.fixture
def fresh():
    """The verdict on this machine is kept for the life of a process."""
    missing.cache_clear()
    yield
    missing.cache_clear()


def pairs(words):
    return list(pairwise(words))


def test_root_needs_no_user_namespace_and_keeps_only_what_gives_root_up(monkeypatch):
    monkeypatch.setattr(bubblewrap, "as_root", lambda: True)
    words = command(7, 8, disk=1 << 20)
    assert "--unshare-user" not in words
    assert [b for a, b in pairs(words) if a == "--cap-add"] == ["CAP_SETUID", "CAP_SETGID"]
    assert words.index("--cap-drop") < words.index("--cap-add")


def test_others_are_nobody_in_a_namespace_that_makes_no_more(monkeypatch):
    monkeypatch.setattr(bubblewrap, "as_root", lambda: False)
    words = command(7, 8, disk=1 << 20)
    assert {("--uid", "65534"), ("--gid", "65534"), ("--info-fd", "7"), ("--seccomp", "8"), ("--cap-drop", "ALL")} <= set(pairs(words))
    assert {"--unshare-user", "--disable-userns"} <= set(words)
    assert "--cap-add" not in words


def test_everything_but_tmp_is_read_only_and_nothing_of_the_home_is_shown(tmp_path):
    words = command(7, 8, disk=1 << 20, readable=(str(tmp_path),))
    assert {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session"} <= set(words)
    assert "--bind" not in words  # bound read-only or not at all
    assert words[words.index("--size") + 1] == str((1 << 20) + ROOM)
    assert words[-4:] == ["--remount-ro", "/", "--chdir", "/tmp"]
    shown = [words[i + 2] for i, word in enumerate(words) if word == "--ro-bind"]
    assert str(tmp_path) in shown
    assert sys.base_prefix == "/usr" or sys.base_prefix not in shown  # its bin and lib only
    assert within(str(interpreter()), shown)
    assert not {"/", "/home", "/root", "/etc", "/var", "/proc", "/sys", "/usr", "/usr/share", "/usr/lib", "/usr/local"} & set(shown)
    assert words.index("--tmpfs") < len(words) - 1 - words[::-1].index(str(tmp_path))  # else /tmp would hide what is shown in it


def test_no_two_sandboxes_share_a_user():
    users = {unused_user() for _ in range(1000)}
    assert len(users) >= 999
    assert all(0x7000_0000 <= user < 0x8000_0000 for user in users)


@pytest.mark.parametrize(
    ("system", "machine", "which", "ran", "said"),
    [
        ("darwin", "arm64", "/bwrap", None, "and this is darwin on arm64; use such a machine"),
        ("linux", "riscv64", "/bwrap", None, "this is linux on riscv64"),
        ("linux", "x86_64", None, None, "bubblewrap is not installed: apt-get install bubblewrap"),
        (
            "linux",
            "x86_64",
            "/bwrap",
            (1, "bwrap: No permissions to create new namespace\n"),
            "does not let it isolate (bwrap: No permissions to create",
        ),
        ("linux", "x86_64", "/bwrap", (1, "bwrap: Unknown option --size\n"), "bubblewrap must be 0.8 or newer"),
        ("linux", "x86_64", "/bwrap", (0, ""), None),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(monkeypatch, fresh, system, machine, which, ran, said):
    monkeypatch.setattr(bubblewrap.sys, "platform", system)
    monkeypatch.setattr(bubblewrap.platform, "machine", lambda: machine)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: which)
    if ran is not None:
        done = subprocess.CompletedProcess([], ran[0], "", ran[1])
        monkeypatch.setattr(bubblewrap.subprocess, "run", lambda *args, **more: done)
    found = missing()
    assert found is None if said is None else said in str(found)


def test_a_bubblewrap_that_hangs_is_missing(monkeypatch, fresh):
    def hang(*args, **more):
        raise subprocess.TimeoutExpired("bwrap", 60)

    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/bwrap")
    monkeypatch.setattr(bubblewrap.sys, "platform", "linux")
    monkeypatch.setattr(bubblewrap.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(bubblewrap.subprocess, "run", hang)
    assert "does not start" in str(missing())
