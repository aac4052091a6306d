"""What processes take together, against processes whose taking is known."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from gradus.sandbox.usage import _MAPPING, Tree, _filled, _mappings, _proportional, _read, _sizes, ended_first

HOLDING = """
import os, sys
held = bytearray(os.urandom(4096)) * (40 << 8)  # 40 MiB
pids = []
for i in range(2):
    if (pid := os.fork()) == 0:
        sys.stdin.read(); os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
"""


def test_children_are_members_and_shared_pages_are_counted_once_where_it_matters():
    process = subprocess.Popen([sys.executable, "-S", "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        children = [int(word) for word in process.stdout.readline().split()]
        tree = Tree(process.pid, None)
        assert sorted(tree.members()) == sorted([process.pid, *children])
        once, thrice = tree.memory(0), tree.memory(1 << 40)
        assert 40 << 20 <= once < 80 << 20  # shared pages by their share, and some mappings
        assert 120 << 20 <= thrice < 240 << 20  # each process's own
        assert tree.disk() == 0
        size, resident = _sizes(process.pid)
        assert size > resident >= 40 << 20
        assert _proportional(process.pid) < resident
    finally:
        process.communicate()


MAPPING = """
import mmap, sys
held = [mmap.mmap(-1, 4096, mmap.MAP_SHARED) for i in range(int(sys.argv[1]))]
print(flush=True)
sys.stdin.read()
"""


def test_mappings_count_although_no_page_is_used():
    """The kernel keeps a list of them, and a file for each that children share: 665 MB under a limit of 256 before they counted."""
    process = subprocess.Popen([sys.executable, "-S", "-c", MAPPING, "6000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        tree = Tree(process.pid, None)
        assert 6000 <= _mappings([process.pid], 10**6) < 6500
        assert 1000 <= _mappings([process.pid], 1000) < 3000
        assert tree.memory(16 << 20) >= 6000 * _MAPPING
        assert tree.memory(1 << 30) < 6000 * _MAPPING  # far from the limit: not counted, because that takes time
    finally:
        process.communicate()


def test_what_has_gone_takes_nothing():
    process = subprocess.Popen(["true"])
    process.wait()
    tree = Tree(process.pid, "/tmp")
    assert tree.memory(0) == tree.disk() == 0
    assert tree.members() == [process.pid]
    assert _read("/no/such/file") == ""


def test_sockets_count_as_full_but_not_those_of_the_whole_machine():
    ends = [end for _ in range(8) for end in socket.socketpair()]
    assert Tree(os.getpid(), "/tmp").sockets() >= len(ends) * _filled() > 0
    assert Tree(os.getpid(), None).sockets() == 0
    for end in ends:
        end.close()


def test_what_is_ended_first_when_memory_runs_out():
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    ended_first(process.pid)
    assert _read(f"/proc/{process.pid}/oom_score_adj") == "1000\n"
    process.communicate()
    ended_first(process.pid)  # it has gone, and nothing is said


def test_threads_children_are_members():
    source = "import subprocess, sys, threading\n"
    source += "def child():\n    cat = subprocess.Popen(['cat'])\n    print(1, flush=True)\n    cat.wait()\n"
    source += "threading.Thread(target=child).start()"
    process = subprocess.Popen([sys.executable, "-S", "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        assert len(Tree(process.pid, None).members()) == 2
        assert os.getpid() not in Tree(process.pid, None).members()
    finally:
        process.communicate()
