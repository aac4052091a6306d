"""The part of this system that a sandbox shows: this Python interpreter, its standard library, the shared libraries of both, and common programs.

A sandbox does not show the whole folder /usr. This folder may contain data, such as answers in /usr/local/share, and the packages of every Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PROGRAMS = ("/usr/bin", "/bin")  # the folders of programs for subprocess and os.system
DATA = ("/usr/share/zoneinfo", "/usr/lib/locale")  # data that the standard library reads: time zones, and the locale C.UTF-8
PACKAGES = ("site-packages", "dist-packages")  # folders in a standard library that are hidden
COMMANDS = "/usr/local/bin"  # the folder in which the names `python` and `python3` lead to this interpreter
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Folders that hold nothing but shared libraries. Of any other folder, only the needed files are shown.
_LIBRARIES = re.compile(r"(/usr)?/lib(32|64|x32|/[\w.]+-linux-[\w.]+)")
_PROBE_SECONDS = 60.0

# This program loads every extension module of the standard library. It prints the mapped files and the search path of its interpreter.
_PROBE = """
import os, sys
sys.stdout = sys.stderr
for folder in sys.path:
    for name in sorted(os.listdir(folder)) if os.path.basename(folder) == "lib-dynload" else ():
        module = name.partition(".")[0]
        if not module.startswith(("_test", "_xx", "xx", "_tkinter")):
            try:
                __import__(module)
            except BaseException:
                continue
mapped = [line.rstrip("\\n").split(None, 5) for line in open("/proc/self/maps")]
files = sorted({words[5] for words in mapped if len(words) == 6 and ".so" in os.path.basename(words[5])})
os.write(1, ascii((files, [os.path.abspath(folder) for folder in sys.path])).encode())
os._exit(0)
"""


def interpreter() -> Path:
    """Returns the base interpreter of this Python's environment."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


@cache
def needed() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the shared libraries of the interpreter, and the folders of its standard library.

    To find them, the interpreter is started once per process.

    Raises OSError if the interpreter does not start.
    """
    import ast

    words = [str(interpreter()), "-I", "-S", "-B", "-W", "ignore", "-c", _PROBE]
    variables = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_SECONDS, check=False, env=variables)
        files, path = ast.literal_eval(done.stdout.decode("ascii"))
    except (ValueError, SyntaxError, subprocess.SubprocessError) as error:
        raise OSError(f"{interpreter()} did not list its shared libraries: {error}") from error
    folders = [folder for folder in path if os.path.exists(folder)]
    inner = {one for one in folders for other in folders if one != other and within(one, [other])}
    own = [folder for folder in folders if folder not in inner]
    return tuple(os.path.realpath(file) for file in files if not within(file, own)), tuple(own)


def library_folders() -> list[str]:
    """Returns the folders of the needed shared libraries. These folders may also contain the libraries of packages."""
    return sorted({os.path.dirname(file) for file in needed()[0]})


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders, or below one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


@cache
def options(readable: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the options of bubblewrap that show the system and further folders, all read-only."""
    found: list[str] = []
    made, folders = {"/"}, list[str]()
    for name in _LINKS:
        if os.path.islink(f"/{name}"):
            found += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]

    def show(source: str, place: str) -> None:
        found.extend(parents(place, made, folders))
        found.extend(("--ro-bind", source, place))
        folders.append(place)

    files, standard = needed()
    whole = sorted({folder for file in files if _LIBRARIES.fullmatch(folder := os.path.dirname(file))})
    system = [folder for folder in (*PROGRAMS, *DATA) if os.path.isdir(folder) and not os.path.islink(folder)]
    for folder in dict.fromkeys((*system, *whole, *standard)):
        show(os.path.realpath(folder), folder)
    for file in (str(interpreter()), *files):
        if not within(file, folders):
            show(file, file)
    for text, place in _names(tuple(files), tuple(whole)):
        if place not in made and not within(place, folders):
            found += [*parents(place, made, folders), "--symlink", text, place]
            made.add(place)
    hidden = [place for folder in folders for name in PACKAGES if os.path.isdir(place := os.path.join(folder, name))]
    for place in hidden:
        found += ["--perms", "0555", "--size", "4096", "--tmpfs", place]
    for folder in dict.fromkeys(readable):
        show(os.path.realpath(folder), folder)
    if os.geteuid() == 0:  # the program runs as another user, who cannot write into these folders
        return tuple(found)
    return (*found, *(word for place in hidden for word in ("--remount-ro", place)))


def parents(place: str, made: set[str], folders: Iterable[str]) -> Iterator[str]:
    """Returns options that make the parent folders of a path.

    These folders contain nothing else, and every user may enter them.
    """
    for parent in map(str, reversed(Path(place).parents)):
        if parent not in made and not within(parent, folders):
            made.add(parent)
            yield from ("--perms", "0755", "--dir", parent)


@cache
def _names(files: tuple[str, ...], whole: tuple[str, ...]) -> list[tuple[str, str]]:
    """Yields (target, path) of the links to the interpreter, to the loader, and to the libraries outside `whole`.

    The loader finds these libraries by the links.
    """
    found = [(str(interpreter()), f"{COMMANDS}/{name}") for name in ("python", "python3")]
    for folder in sorted({os.path.dirname(file) for file in files} - set(whole)):
        found += _leading(folder, files, "")
    for name in _LINKS[2:]:
        for folder in dict.fromkeys((os.path.realpath(f"/{name}"), f"/usr/{name}")):
            found += _leading(folder, files, "ld-") if os.path.isdir(folder) and not os.path.islink(folder) else []
    return found


def _leading(folder: str, files: tuple[str, ...], start: str) -> list[tuple[str, str]]:
    """Yields (file, path) of the symbolic links in a folder that lead to one of the files."""
    with os.scandir(folder) as entries:
        links = sorted(entry.path for entry in entries if entry.name.startswith(start) and ".so" in entry.name and entry.is_symlink())
    return [(file, path) for path in links if (file := os.path.realpath(path)) in files]
