"""What runs inside a sandbox before the program does: gives up its user, waits for one program, limits itself and becomes it.

Its text is handed to an interpreter with -c. It imports next to nothing, so that a sandbox starts fast.
"""

import marshal
import os
import resource
import sys


def main(job: int, ready: int, user: int) -> None:
    """`job`: descriptor from which the program comes; `ready`: one that tells when it may come, and that it begins; `user`: id to become,
    0: stay.
    """
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    os.umask(0o077)
    os.write(ready, b"ready")
    with os.fdopen(job, "rb") as pipe:
        content = pipe.read()
    if not content:  # the one that started it has gone
        os._exit(0)
    # Not text of a program but what the library wrote a moment ago, in the same version of Python.
    given = marshal.loads(content)
    for name, text in given["files"].items():
        if "/" in name:
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as file:
            file.write(text)
    for kind, (soft, hard) in given["limits"].items():
        most = resource.getrlimit(getattr(resource, kind))[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        try:
            resource.setrlimit(getattr(resource, kind), (soft, hard))
        except (OSError, ValueError) as error:
            raise SystemExit(f"this system does not set {kind} to {soft}: {error}") from None
    os.write(ready, b"begun")
    os.close(ready)
    become(given["program"], given["arguments"], given["path"])


def become(name: str, arguments: list[str], path: list[str]) -> None:
    """Runs a file as `python FILE` would, with tracebacks that begin in it."""
    _builtins()
    module = type(sys)("__main__")
    module.__file__ = name
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = [name, *arguments]
    sys.path[:] = [os.getcwd(), *sys.path, *path]
    try:
        with open(name, "rb") as file:
            code = compile(file.read(), name, "exec")
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        import traceback

        trace = error.__traceback__
        traceback.print_exception(type(error), error, trace.tb_next if trace is not None else None)
        sys.exit(1)


def _builtins() -> None:
    """What `site` adds and programs use. All of `site` would take a third of the start."""
    import builtins
    from _sitebuiltins import Quitter, _Helper

    for name in ("exit", "quit"):
        setattr(builtins, name, Quitter(name, "end of file"))
    builtins.help = _Helper()


main(*(int(word) for word in sys.argv[1:4]))
