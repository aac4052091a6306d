"""Replies of servers, stored in a file by the hash of the request, so that no request is sent twice."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradus.types import UserError
from gradus.workers.chat_client import Reply


def hash_of(request: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a request, from its JSON text with sorted keys."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class ReplyStore:
    """An SQLite file of replies. Several threads and processes may use the file together. An added reply stays even if the process is killed.

    Only the user who made the file can read it. The file contains replies and hashes, but no requests and no keys.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        with self._named():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._file = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.execute("CREATE TABLE IF NOT EXISTS replies (hash TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID")

    def find(self, hashes: Sequence[str]) -> dict[str, Reply]:
        """Returns the stored replies of these hashes."""
        found: dict[str, Reply] = {}
        with self._named(), self._lock:
            for start in range(0, len(hashes), 500):
                some = hashes[start : start + 500]
                rows = self._file.execute(f"SELECT hash, reply FROM replies WHERE hash IN ({','.join('?' * len(some))})", some)
                found |= {name: Reply.read(json.loads(text)) for name, text in rows}
        return found

    def add(self, name: str, reply: Reply) -> None:
        """Stores a reply. If the hash is already stored, its reply does not change."""
        with self._named(), self._lock:
            self._file.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (name, json.dumps(reply.stored())))

    def __len__(self) -> int:
        with self._named(), self._lock:
            return int(self._file.execute("SELECT COUNT(*) FROM replies").fetchone()[0])

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, KeyError) as error:
            raise UserError(f"the stored replies in {self.path} cannot be used ({error}); free the disk, or remove the file if it is damaged") from None


_STORES: dict[tuple[str, int], ReplyStore] = {}


def store_at(path: Path) -> ReplyStore:
    """Returns this process's store for the file."""
    name = (str(path.resolve()), os.getpid())
    if name not in _STORES:
        _STORES[name] = ReplyStore(path)
    return _STORES[name]
