"""The script that runs a player's program inside its sandbox. If the last statement is an expression whose value is not None, the script prints this value."""

import ast
import sys


def main() -> None:
    with open("tool.py", encoding="utf-8", errors="surrogatepass") as file:
        text = file.read()
    module = sys.modules["__main__"].__dict__
    tree = ast.parse(text, "tool.py")
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, "tool.py", "exec"), module)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "tool.py", "eval"), module)
        if value is not None:
            print(value)


if __name__ == "__main__":
    main()
