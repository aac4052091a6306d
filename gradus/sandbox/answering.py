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
    for kind, at, text in asked:
        try:
            if kind == "value":
                line = json.dumps([kind, at, encoded(eval(text, module.__dict__))])
            else:
                exec(text, module.__dict__)
                line = json.dumps([kind, at, True])
        except BaseException as error:
            line = json.dumps([kind, at, {"raised": type(error).__name__}])
            if kind != "value":
                print(f"test {at}: {type(error).__name__}: {error}", file=sys.stderr)
        tell(channel, line)
    sys.stderr.flush()
    os._exit(0)  # threads that the program has left do not hold it up


def tell(channel: int, line: str) -> None:
    content = (line + "\n").encode()
    while content:
        content = content[os.write(channel, content) :]


def encoded(value: object) -> object:
    """Plain data as JSON, its types kept, a Counter or an IntEnum as what it extends; what is none by the name of its type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list):
        return {"list": [encoded(item) for item in list.__iter__(value)]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in tuple.__iter__(value)]}
    if isinstance(value, set | frozenset | type({}.keys())):
        return {"set": [encoded(item) for item in frozenset(value)]}
    if isinstance(value, bytes | bytearray):
        return {"bytes": list(memoryview(value))}
    if isinstance(value, dict):
        return {"dict": [[encoded(key), encoded(item)] for key, item in dict.items(value)]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of numpy's
        return encoded(value.item())
    if hasattr(value, "as_integer_ratio"):  # a Fraction, a Decimal
        above, below = value.as_integer_ratio()
        return int(above) if below == 1 else above / below
    return {"raised": f"it is of type {type(value).__name__}, no plain data"}


if __name__ == "__main__":
    main()
