"""What runs inside a sandbox beside a program whose functions are called: `gradus.sandbox.calls` is its other end.

Reads what it shall ask from standard input, to the end, before the program runs; writes a line of JSON for each answer.
"""

import json
import os
import sys


def main() -> None:
    """Answers go out through a descriptor of their own; what the program prints goes to standard error."""
    channel = os.dup(1)
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.read())
    module = type(sys)("solution")
    sys.modules["solution"] = module
    with open("solution.py", encoding="utf-8", errors="surrogatepass") as file:
        code = compile(file.read(), "solution.py", "exec")
    exec(code, module.__dict__)
    for at, text in enumerate(asked["expressions"]):
        try:
            answer = encoded(eval(text, module.__dict__))
        except BaseException as error:
            answer = {"raised": type(error).__name__}
        tell(channel, ["value", at, answer])
    for at, text in enumerate(asked["statements"]):
        try:
            exec(text, module.__dict__)
        except BaseException as error:
            print(f"test {at}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        tell(channel, [asked["word"], at, True])
    sys.stderr.flush()
    os._exit(0)  # threads that the program has left do not hold it up


def tell(channel: int, line: list[object]) -> None:
    content = (json.dumps(line) + "\n").encode()
    while content:
        content = content[os.write(channel, content) :]


def encoded(value: object) -> object:
    """Plain data as JSON, its types kept; what is none by the name of its type."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return {kind.__name__: [encoded(item) for item in value]}  # type: ignore[attr-defined]
    if kind in (set, frozenset):
        return {"set": [encoded(item) for item in value]}  # type: ignore[attr-defined]
    if kind is dict:
        return {"dict": [[encoded(key), encoded(item)] for key, item in value.items()]}  # type: ignore[attr-defined]
    return {"raised": f"it is of type {kind.__name__}, no plain data"}


if __name__ == "__main__":
    main()
