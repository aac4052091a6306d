"""The bubblewrap command, which limits the files, the network and the actions of a program.

The module also checks whether this machine permits the command.

Reference: bwrap(1). If root starts bubblewrap, it needs no user namespace. The program then changes from root to an unused user id, because the
kernel's limit on processes does not apply to root. If another user starts bubblewrap, it makes a user namespace, in which the program runs as
`nobody`.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache

from gradus.sandbox.seccomp import MACHINES
from gradus.sandbox.shown import options

INSTALL = "apt-get install bubblewrap (as root; scripts/debian-packages.sh does it), or your system's package of that name"
WEAKER = (
    "or set --task.isolation rlimits (in Python Isolation.RLIMITS), a weaker isolation in which programs can read and write your files"
)
ROOM = 4 << 20  # bytes of /tmp that the kernel allows above the limit; so this process can find and report an excess
NOBODY = 65534
_FREE_USERS = 0x7000_0000  # ids from this number to 0x7FFFFFFF are unused in systemd's table of ids (UIDS-GIDS.md)


def as_root() -> bool:
    """Whether this process is root. If so, a program in a sandbox runs as another user."""
    return os.geteuid() == 0


def unused_user() -> int:
    """Returns a random user id that no user and no other sandbox has, because the kernel counts processes per user id."""
    return _FREE_USERS + secrets.randbelow(1 << 28)


def packages_folders() -> list[str]:
    """Returns the folders of this environment's packages."""
    return sorted({path for path in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) if path and os.path.isdir(path)})


def command(info: int, seccomp: int, *, disk: int, readable: Sequence[str] = (), bwrap: str = "bwrap") -> list[str]:
    """Returns the bwrap command with its options, without the command of the program. Raises OSError if the interpreter does not start.

    `info`: descriptor to which bwrap writes; `seccomp`: descriptor from which bwrap reads the filter.

    `disk`: size limit of the files in /tmp, in bytes. `readable`: further folders that the program can read but not change.
    """
    words = [bwrap, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--hostname", "sandbox", "--info-fd", str(info), "--seccomp", str(seccomp), "--cap-drop", "ALL"]
    if as_root():
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--disable-userns"]
    words += ["--perms", "0755", "--dir", "/dev", "--perms", "0755", "--dir", "/etc"]
    for device in ("null", "zero", "urandom"):
        words += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    words += ["--symlink", "urandom", "/dev/random", "--symlink", "/tmp", "/dev/shm", "--perms", "1777", "--size", str(disk + ROOM), "--tmpfs", "/tmp"]
    words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", *options(tuple(readable))]
    return [*words, "--remount-ro", "/", "--chdir", "/tmp"]


@cache
def missing() -> str | None:
    """Returns the reason why this machine cannot isolate programs, with the remedy; None if the machine can. For this test, the function isolates one
    program, only once per process.
    """
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return f"bubblewrap isolates only on Linux (x86_64 and aarch64), and this is {sys.platform} on {platform.machine()}; use such a machine"
    if shutil.which("bwrap") is None:
        return f"bubblewrap is not installed: {INSTALL}"
    words = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--size", "4096", "--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr"]
    words += [] if as_root() else ["--unshare-user", "--uid", str(NOBODY), "--disable-userns"]
    for place in ("/bin", "/lib", "/lib64"):
        if os.path.islink(place):
            words += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            words += ["--ro-bind", place, place]
    words += ["/usr/bin/true"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if done.returncode == 0:
        return None
    said = " ".join(done.stderr.split())[:300] or f"exit code {done.returncode}"
    plain = "the system must allow user namespaces to every user (sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu "
    plain += "kernel.apparmor_restrict_unprivileged_userns=0), or run as root"
    remedy = "a container must allow mounts and namespaces" if as_root() else plain
    return f"bubblewrap is installed, but the system does not let it isolate ({said}): {remedy}; and bubblewrap must be 0.8 or newer"
