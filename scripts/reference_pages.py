"""Writes the generated entries of docs/parts.md and docs/python.md between their marks: python -m scripts.reference_pages (`make index`).

`<!-- generated: parts -->` begins the tables of the parts, `<!-- generated: entries NAME ... -->` the entries of these objects, as
`module.Class` (fields), `module.Class:*` (public methods too) or `module.Class:a,b` (these methods). `<!-- end of generated -->` ends both.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ("parts.md", "python.md")
MARKED = re.compile(r"(?<=^<!-- generated: )(\w+)([^>]*?)( -->\n)(?:.*?)(?=^<!-- end of generated -->$)", re.M | re.S)
WIDE = 110  # characters of a signature on one line
PLACES = {  # place -> a method of its parts, and an argument of this method
    "curriculum": ("choose", "source"),
    "rollout": ("run", "requests"),
    "rollout.sampler": ("path", "self"),
    "reward": ("score", "groups"),
    "selection": ("keep", "groups"),
    "credit": ("assign", "groups"),
    "objective.TERM": ("loss", "outputs"),
    "objective.policy.ratio": ("log_ratio", "logprobs"),
    "objective.policy.trust": ("losses", "log_ratio"),
    "objective.policy.weight": ("factors", "old"),
    "objective.policy.average": ("coefficients", "batch"),
    "objective.policy.likeness": ("logprob", "error"),
    "objective.TERM.score": ("scores", "logprobs"),
    "objective.TERM.link": ("losses", "chosen"),
    "update": ("apply", "players"),
    "optimizer": ("build", "parameters"),
    "schedule": ("at", "recipe"),
    "search": ("solve", "problem"),
    "study": ("measure", "run"),
}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def plain(text: str) -> str:
    """Text as Markdown that shows it unchanged; `code` in backticks stays code."""
    parts = re.split(r"(`[^`]+`)", text)
    marks = r"(\*(?=\S)|(?<=\S)\*|(?<!\w)_|_(?!\w)|<(?=[\w/!])|\\)"
    return "".join(part if i % 2 else re.sub(marks, r"\\\1", part) for i, part in enumerate(parts))


def parts() -> str:
    """A table for each place of a recipe: the parts, the first sentence of each docstring, its fields with their defaults, its file."""
    from gradus.recipe.overrides import part_modules

    classes = {name: getattr(importlib.import_module(module), name) for name, module in part_modules().items()}
    found = {place: {n: c for n, c in classes.items() if takes(c, *asked)} for place, asked in PLACES.items()}
    from gradus.types import players

    found["players.NAME.model"] = {c.__name__: c for c in get_args(players.Model) if c is not str}
    return "\n\n".join(f"## {place}\n\n{table(['part', 'description', 'fields', 'file'], rows(of))}" for place, of in found.items())


def takes(cls: type, method: str, argument: str) -> bool:
    """Whether a class has this method with this argument."""
    own = getattr(cls, method, None)
    protocol = getattr(cls, "_is_protocol", False)
    return callable(own) and not protocol and argument in inspect.signature(own).parameters


def rows(classes: dict[str, type]) -> list[list[str]]:
    return [
        [f"`{name}`", plain(summary(cls)), ", ".join(defaults(cls)), f"`{file_of(cls)}`"] for name, cls in sorted(classes.items())
    ]


def summary(thing: Any) -> str:
    """The first line of a docstring, with the rest of a sentence that goes on in the next lines."""
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    line, _, rest = paragraph.partition("\n")
    if line.endswith(".") or not rest:
        return line if line.endswith(".") else f"{line.rstrip(',:')}."
    sentence, _, _ = f"{' '.join(rest.split())} ".partition(". ")
    return f"{line} {sentence.strip().rstrip('.')}."


def defaults(cls: type) -> Iterator[str]:
    """Every field of a part as `name=default`; a field without default is its name."""
    for field in dataclasses.fields(cls):
        value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        yield f"`{field.name}`" if value is dataclasses.MISSING else f"`{field.name}={shown(value)}`"


def shown(value: Any) -> str:
    """A default in few words: a part by its class."""
    return f"{type(value).__name__}()" if dataclasses.is_dataclass(value) else repr(value)


def file_of(thing: Any) -> str:
    return Path(inspect.getsourcefile(thing) or "").relative_to(DOCS.parent).as_posix()


def entries(names: str) -> str:
    """The entries of objects, one after the other."""
    return "\n\n".join(entry(*name.partition(":")[::2]) for name in names.split())


def entry(name: str, members: str = "") -> str:
    """Heading, signature or fields, docstring, methods."""
    module, _, attribute = name.rpartition(".")
    thing = getattr(importlib.import_module(module), attribute)
    text = [f"### {attribute}"]
    if inspect.isclass(thing):
        bases = [b.__name__ for b in thing.__bases__ if b not in (object, Exception) and b.__name__ != "Protocol"]
        text += [f"`{name}`{f', a `{bases[0]}`' if bases else ''}", prose(thing), *fields(thing)]
        text += [method(thing, m) for m in chosen(thing, members)]
    else:
        text += [f"```py\n{signature(thing)}\n```", f"`{name}`", prose(thing)]
    return "\n\n".join(filter(None, text))


def chosen(cls: type, members: str) -> list[str]:
    """The methods and properties that are listed, in the order of the source."""
    own = [n for n, m in vars(cls).items() if not n.startswith("_") and (inspect.isfunction(m) or isinstance(m, property | classmethod))]
    return own if members == "*" else [m for m in members.split(",") if m]


def method(cls: type, name: str) -> str:
    """A method or a property, with its docstring under it."""
    found = inspect.getattr_static(cls, name)
    function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    head = f"{name}{returned(definition(function))}" if isinstance(found, property) else signature(function)
    return f"```py\n{head}\n```\n\n{prose(function)}".rstrip()


def fields(cls: type) -> list[str]:
    """The fields of a dataclass or a protocol as a list, with the comments of the source."""
    from gradus.cli.source_lines import comment_of

    if not dataclasses.is_dataclass(cls):
        return []
    lines = []
    for node in definition(cls).body:
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
            default = f" = {ast.unparse(node.value)}" if node.value is not None else ""
            comment = comment_of(cls, ast.unparse(node.target))
            lines.append(f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{default}`{f': {plain(comment)}' if comment else ''}")
    return ["\n".join(lines)] if lines else []


def definition(thing: Any) -> Any:
    """The definition of a class or function, read from its source."""
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def returned(node: Any) -> str:
    return f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""


def signature(function: Any) -> str:
    """A function as it is called, an argument a line if it is long."""
    node = definition(function)
    given = arguments(node.args)
    own = given[1:] if given[:1] in (["self"], ["cls"]) else given
    start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{start}{node.name}({', '.join(own)}){returned(node)}"
    if len(line) <= WIDE:
        return line
    return f"{start}{node.name}(\n{''.join(f'    {argument},{chr(10)}' for argument in own)}){returned(node)}"


def arguments(given: ast.arguments) -> list[str]:
    """The arguments as text, with the marks of those that are named."""
    positional = [*given.posonlyargs, *given.args]
    first = len(positional) - len(given.defaults)
    out = [with_default(a, given.defaults[i - first] if i >= first else None) for i, a in enumerate(positional)]
    out += [f"*{ast.unparse(given.vararg)}"] if given.vararg else ["*"] if given.kwonlyargs else []
    out += [with_default(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*out, *([f"**{ast.unparse(given.kwarg)}"] if given.kwarg else [])]


def with_default(argument: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if argument.annotation is not None else "="
    return ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def prose(thing: Any) -> str:
    """A docstring as Markdown: paragraphs as they are, indented formulas and examples as code."""
    doc = inspect.cleandoc((vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing)) or "")
    if doc.startswith(f"{getattr(thing, '__name__', '')}("):  # the text of `dataclass` for a class without docstring
        return ""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", doc)]
    return "\n\n".join(as_block(block) for block in blocks)


def as_block(block: str) -> str:
    if block.lstrip().startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith("    "):
        return f"```text\n{textwrap.dedent(block)}\n```"
    return "\n".join(plain(line.strip()) for line in block.splitlines())


def module_text(name: str) -> str:
    """The docstring of a module."""
    return prose(importlib.import_module(name.strip()))


GENERATED = {"parts": lambda given: parts(), "entries": entries, "module": module_text}


def filled(text: str) -> str:
    """A page with new text between its marks."""
    return MARKED.sub(lambda found: f"{found[1]}{found[2]}{found[3]}\n{GENERATED[found[1]](found[2])}\n\n", text)


if __name__ == "__main__":
    for page in PAGES:
        path = DOCS / page
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {path}")
