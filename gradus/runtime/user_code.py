"""Objects from a user's Python file, named as FILE.py:NAME. Errors name the file and the line."""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gradus.types.errors import RaisedElsewhere, UserError, unknown
from gradus.types.returned import place_of
from gradus.types.signals import Signal, Want

LIBRARIES = (str(Path(__file__).parent.parent), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
"""The folders with code that does not come from the user."""


@dataclass(frozen=True)
class Located:
    """A function that another process can load again.

    `call` is a function of the object that `spec` (FILE.py:NAME) names. This object was made with `options`.
    """

    call: Callable[..., Any]
    spec: str
    options: str = "{}"  # JSON

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def split_spec(spec: str, kind: str) -> tuple[Path, str]:
    """Returns the file and the name in `FILE.py:NAME`. Raises UserError for another form or a missing file."""
    file, _, name = spec.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise UserError(f'{kind} "{spec}" is not of the form FILE.py:NAME; write the file, a colon and the name of the {kind} in the file')
    path = Path(file)
    if not os.path.isfile(path):
        raise UserError(f'{kind} "{spec}": there is no file {path}; check the path (a relative path starts at {Path.cwd()})')
    return path, name


def load_object(spec: str, kind: str) -> Any:
    """Returns the object `FILE.py:NAME`. The file is imported only once per process.

    Raises UserError if the file is missing, does not compile, raises on import, or lacks the name (the message suggests similar names).
    """
    path, name = split_spec(spec, kind)
    module = load_module(path)
    if not hasattr(module, name):
        own = {n: v for n, v in vars(module).items() if not n.startswith("_") and not inspect.ismodule(v)}
        public = [n for n, v in own.items() if getattr(v, "__module__", module.__name__) == module.__name__ or not callable(v)]  # own names
        raise unknown(kind, name, public, f"Looked for it in {path}")
    return getattr(module, name)


def load_module(path: Path) -> ModuleType:
    """Returns the module of a Python file in its current form. The file can import other files of its folder.

    Raises UserError with the line that failed.
    """
    path = path.resolve()
    name = f"_user_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module during the import
    refuse_shadowed(path)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # at the end of the path, so that no file of the user hides an installed module
    try:
        exec(spec.loader.source_to_code(path.read_bytes(), str(path)), vars(module))  # stored bytecode is not used, because it may belong to an earlier text
    except SyntaxError as error:
        del sys.modules[name]
        raise UserError(f"{error.filename or path}, line {error.lineno or 1}: {error.msg}; fix the file and start again") from error
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be imported: {raised(error, str(path))}; fix the file and start again") from error
    return module


def refuse_shadowed(path: Path) -> None:
    """Raises UserError if the file imports a file of its folder that has the name of an installed package.

    Python would import the package in place of the file.

    If a file has the name of a module of the standard library, there is no error, because the import then means the library's module.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError):  # the import reports it
        return
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    for node in imports:
        full = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if not node.level else []
        for name in {each.partition(".")[0] for each in full} - sys.stdlib_module_names:
            beside = next((p for p in (path.parent / f"{name}.py", path.parent / name / "__init__.py") if p.exists()), None)
            elsewhere = None if beside is None else importlib.machinery.PathFinder.find_spec(name, _without(path.parent))
            if beside is not None and elsewhere is not None and elsewhere.origin is not None:
                raise UserError(
                    f"{path}, line {node.lineno}: import {name} would find the installed package at {elsewhere.origin}, not {beside}; "
                    f"rename {beside.relative_to(path.parent).parts[0]}"
                )


def _without(folder: Path) -> list[str]:
    """Returns the folders in which Python looks for modules, without `folder`."""
    return [place for place in sys.path if Path(place or ".").resolve() != folder]


def blamed(error: BaseException) -> str | None:
    """Returns a message for an error raised in a user's file, with the innermost line of that file; None for any other error."""
    files = {m.__file__ for name, m in list(sys.modules.items()) if name.startswith("_user_")}
    inside = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    if not inside:
        return None
    text = without_addresses(" ".join(str(error).split()))[:300]
    return f"{inside[-1].filename}, line {inside[-1].lineno}: {type(error).__name__}{': ' + text if text else ''}; fix the error and start again"


@contextmanager
def asked(part: Any, method: str) -> Iterator[None]:
    """A context for a call of a part. An exception of user code becomes a UserError whose message is one sentence with class, method, file and line.

    An exception of a built-in part does not change.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        said = _said(error, part, method)
        if said is None:
            raise
        raise UserError(said) from error


def _said(error: BaseException, part: Any, method: str) -> str | None:
    """Returns the sentence for an exception of user code, or for arguments that a method does not take; None for any other exception."""
    called = f"{type(part).__name__}.{method}"
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if not code.co_filename.startswith((*LIBRARIES, "<"))]
    methods = [code.co_qualname for code, _ in own if "." in code.co_qualname and "<locals>" not in code.co_qualname]
    called = next(iter(methods), called)
    if type(error) is UserError and own:  # an error of Gradus itself, about a request of the user's code
        code, line = own[-1]
        file = Path(code.co_filename).name
        return None if file in str(error) else f"{error} (asked for by {called}: {file}, line {line})"
    if isinstance(error, UserError) or (not own and f"{called}()" not in str(error)):
        return None
    missing = error.args[0] if isinstance(error, KeyError) and error.args else None
    read = "needs" if isinstance(missing, Signal) else "wants" if isinstance(missing, Want) else None
    remedy = "fix the error and start again" if read is None else f"add it to the class: {read} = ({missing!r},)"
    return f"{called} raised {raised_in(error, part)}; {remedy}"


def raised_in(error: BaseException, part: Any = None) -> str:
    """Returns the exception of a part as one line of text. The text names the innermost line outside Gradus and libraries.

    If there is no such line, for example after a call of a method with wrong arguments, the text names the line of the part's class. If this line is also
    unknown, the text names the innermost line.
    """
    if isinstance(error, RaisedElsewhere):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*LIBRARIES, "<"))]
    text = without_addresses(" ".join(str(error).split()))[:300]
    where = line_of(part) if not own else ""
    if not where and (inside := own or frames):
        where = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})"
    return f"{type(error).__name__}{': ' + text if text else ''}{where}"


def without_addresses(text: str) -> str:
    """Returns a text without the addresses of objects, so that a resumed run writes the same text as an uninterrupted run."""
    return re.sub(r" at 0x[0-9a-fA-F]{4,}", "", text)


def line_of(part: Any) -> str:
    """Returns the file and the line of a part's class in brackets, for the end of a sentence; '' if the source is missing.

    If the part has wrappers, the class is the class of the part inside the wrappers.
    """
    place = place_of(inspect.unwrap(part))
    return f" ({place})" if place else ""


def raised(error: BaseException, file: str | None = None) -> str:
    """Returns an exception as one line of text, with the innermost line of `file`; if `file` is None, the innermost line of any file."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename == file] or (frames if file is None else [])
    where = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else f" ({Path(file).name})" if file else ""
    try:
        text = without_addresses(" ".join(str(error).split()))[:300]
    except Exception:  # the exception's own method __str__ may raise an error
        text = ""
    return f"{type(error).__name__}{': ' + text if text else ''}{where}"
