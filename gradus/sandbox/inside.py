"""The script that starts inside a sandbox. The script changes its user, waits for one program, sets its own limits and runs the program.

The interpreter gets the text of this script with -c. The script imports few modules, so that a sandbox starts fast.
"""

import marshal
import os
import resource
import sys


def main(job: int, ready: int, user: int) -> None:
    """Runs one program. Args: job: the descriptor from which the program is read; ready: the descriptor for the signals "ready" and "begun"; user: the new
    user id (0: no change).
    """
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    os.umask(0o077)
    os.write(ready, b"ready")
    with os.fdopen(job, "rb") as pipe:
        content = pipe.read()
    if not content:  # the parent process has ended
        os._exit(0)
    # marshal is safe here: the library itself wrote this content, in the same version of Python.
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
            raise SystemExit(f"this system cannot set the limit {kind} to {soft}: {error}") from None
    os.write(ready, b"begun")
    os.close(ready)
    become(given["program"], given["arguments"], given["path"])


def become(name: str, arguments: list[str], path: list[str]) -> None:
    """Runs a file like `python FILE`. Tracebacks begin in that file."""
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
    """Adds exit, quit and help, as `site` does. The import of `site` would take a third of the start time."""
    import builtins
    from _sitebuiltins import Quitter, _Helper

    for name in ("exit", "quit"):
        setattr(builtins, name, Quitter(name, "end of file"))
    builtins.help = _Helper()


main(*(int(word) for word in sys.argv[1:4]))
