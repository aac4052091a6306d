"""Finds tests that every program passes, because such tests would reward every program. Tests are Python text; they are read, but not run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence

_BUILTINS = frozenset(dir(builtins))
# A test that uses one of these names may reach the program without naming any of its functions.
_REACHING = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__", "open", "input", "getattr", "dir"})
_MODULES = frozenset({"solution", "sys", "os", "io", "importlib", "inspect", "subprocess", "pathlib", "builtins", "__main__", "contextlib", "runpy"})
_WIDE = frozenset({"AssertionError", "Exception", "BaseException"})  # an `except` of one of these classes catches a failed assertion
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def fault(texts: Sequence[Sequence[ast.stmt]]) -> str | None:
    """Returns the reason why the texts of a problem test nothing, with the remedy; None if a program may fail them."""
    lines = [node for body in texts for node in body]
    checks = {node.name: node for node in lines if isinstance(node, _Function)}
    if not any(_claims(node, checks) for node in lines):
        first = next((node for node in lines if not _defines(node)), None)
        said = f"only define names, such as {_short(lines[0])}" if first is None and lines else "contain no assertion that can fail"
        said += f", such as {_short(first)}" if first is not None else ""
        return f"its tests {said}, so every program would pass; add an assertion, or a line such as check(f), which calls a defined function"
    if not _reaches(lines):
        return "its tests call no function of the program, so every program would pass; call the function that the prompt asks for"
    return None


def claims_nothing(body: Sequence[ast.stmt]) -> bool:
    """Returns whether every program passes a text, because the text only defines names or its assertions are always true."""
    return not any(_claims(node, {}) for node in body)


def free_names(texts: Iterable[Sequence[ast.stmt]]) -> list[str]:
    """Returns the names in texts that neither the texts nor Python define. Such names are the functions of the program."""
    nodes = [inner for body in texts for node in body for inner in ast.walk(node)]
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return sorted(set(used) - _BUILTINS - set(_bound(nodes)))


def mistake(texts: Sequence[Sequence[ast.stmt]]) -> str | None:
    """Returns the reason why a test is surely a mistake, with the remedy; None if no test is a mistake.

    Two mistakes are found: a tuple after `assert`, and a comparison without `assert`.
    """
    lines = [node for body in texts for node in body]
    for node in (inner for outer in lines for inner in ast.walk(outer)):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple) and node.test.elts:
            fixed = f"assert {ast.unparse(node.test.elts[0])}" + "".join(f", {ast.unparse(part)}" for part in node.test.elts[1:2])
            return f"its test {_short(node)} asserts a tuple, which is always true; leave out the brackets: {fixed[:80]}"
    bodies = [lines, *(node.body for node in lines if isinstance(node, _Function))]
    for node in (node for body in bodies for node in body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare | ast.BoolOp):
            return f"its test {_short(node)} compares values but asserts nothing, so a wrong value passes; write assert {_short(node)[1:-1]}"
    return None


def _reaches(lines: Sequence[ast.stmt]) -> bool:
    """Returns whether texts use a name that they do not define, or may reach the program in another way."""
    nodes = [inner for node in lines for inner in ast.walk(node)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    modules = {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module).partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    return bool(names & _REACHING or modules & _MODULES or free_names([lines]))


def _bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, _Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def _defines(node: ast.stmt) -> bool:
    """Returns whether a line is a definition, an import, `pass`, a bare literal, or the assignment of an expression without calls and names."""
    if isinstance(node, _Function | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(inner, ast.Call | ast.Name) and not _stored(inner) for inner in ast.walk(node))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _claims(node: ast.stmt, checks: Mapping[str, _Function], depth: int = 8) -> bool:
    """Returns whether a line can fail for some program.

    `checks`: the functions that the texts define. A call of such a function can fail if a line in its body can fail.
    """
    if _defines(node):
        return False
    if isinstance(node, ast.Assert):
        return not always_true(node.test)
    if isinstance(node, ast.Try):
        inside = [] if any(map(_swallows, node.handlers)) else [*node.body, *(line for h in node.handlers for line in h.body)]
        return any(_claims(line, checks, depth) for line in (*inside, *node.orelse, *node.finalbody))
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Constant):
        return any(_claims(line, checks, depth) for line in (node.body if node.test.value else node.orelse))
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple | ast.List | ast.Constant):
        empty = not (node.iter.value if isinstance(node.iter, ast.Constant) else node.iter.elts)
        return any(_claims(line, checks, depth) for line in ((*node.orelse,) if empty else (*node.body, *node.orelse)))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and depth:
        known = checks.get(node.value.func.id)
        return known is None or any(_claims(line, checks, depth - 1) for line in known.body)
    return not isinstance(node, ast.Return)


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Returns whether a handler catches a failed assertion and then continues."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    wide = any(kind is None or (isinstance(kind, ast.Name) and kind.id in _WIDE) for kind in kinds)
    return wide and all(isinstance(line, ast.Pass | ast.Continue) or _prints(line) for line in handler.body)


def _prints(line: ast.stmt) -> bool:
    if not isinstance(line, ast.Expr):
        return False
    call = line.value
    return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print")


def always_true(claim: ast.expr) -> bool:
    """Returns whether a condition is true for every program, for example because it compares an expression with itself, or is a tuple that is not empty."""
    if isinstance(claim, ast.BoolOp):
        return (any if isinstance(claim.op, ast.Or) else all)(map(always_true, claim.values))
    if isinstance(claim, ast.Compare) and _with_itself(claim):
        return True
    if isinstance(claim, ast.Lambda | ast.GeneratorExp):  # such an object is true for any result of its code
        return True
    if isinstance(claim, ast.List | ast.Set | ast.Tuple | ast.Dict):
        return bool(claim.keys if isinstance(claim, ast.Dict) else claim.elts)
    return not any(isinstance(node, ast.Name) for node in ast.walk(claim)) and _truth(claim)


def _with_itself(claim: ast.Compare) -> bool:
    equal = all(isinstance(op, ast.Eq | ast.LtE | ast.GtE | ast.Is) for op in claim.ops)
    return equal and len({ast.dump(side) for side in (claim.left, *claim.comparators)}) == 1


def _truth(claim: ast.expr) -> bool:
    """Returns whether an expression without names is true. If the value cannot be computed, returns True."""
    try:
        return bool(ast.literal_eval(claim))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return True


def _short(node: ast.stmt) -> str:
    return repr(ast.unparse(node).partition("\n")[0][:80])
