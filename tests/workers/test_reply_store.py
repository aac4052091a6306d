"""Stored replies: found again by another process, one reply per hash, readable by the user alone, and a damaged file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradus.types import UserError
from gradus.workers.chat_client import Reply
from gradus.workers.reply_store import ReplyStore, hash_of, store_at


def test_replies_are_found_again(tmp_path: Path) -> None:
    store = ReplyStore(tmp_path / "a" / "replies.sqlite")
    many = {f"h{i}": Reply(f"text {i}", i, 1, ({"yes": -0.5},)) for i in range(1200)}
    for name, reply in many.items():
        store.add(name, reply)
    store.add("h3", Reply("another"))
    assert ReplyStore(store.path).find([*many, "unknown"]) == many
    assert len(store) == 1200
    assert store.find([]) == {}
    assert os.stat(store.path).st_mode & 0o077 == 0


def test_a_killed_process_keeps_its_replies(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    code = (
        "import os, pathlib, sys\nfrom gradus.workers.chat_client import Reply\nfrom gradus.workers.reply_store import ReplyStore\n"
        "store = ReplyStore(pathlib.Path(sys.argv[1]))\nfor i in range(50): store.add(str(i), Reply('x'))\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert len(ReplyStore(path)) == 50


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(UserError, match=r"replies\.sqlite cannot be used"):
        ReplyStore(path)


def test_hashes_and_shared_stores(tmp_path: Path) -> None:
    assert hash_of({"a": 1, "b": "é"}) == hash_of({"b": "é", "a": 1}) != hash_of({"a": 1, "b": "e"})
    assert store_at(tmp_path / "x") is store_at(tmp_path / "x")
