"""Phrases that are hard to read, in README, docs, docstrings, messages and comments of fields: `python -m scripts.english` lists them.

    python -m scripts.english --counts     the number of findings per rule and folder

No kept package can express these rules, because they are about this project's readers: many of them read English as a second language. A folder
that is not clean yet waits under the name of the rule in `WAITING`; `make lint` fails for a finding in any other folder. The list only shrinks.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
GENERATED = ("docs/mistakes.md", "docs/parts.md", "docs/papers.md", "docs/python.md")  # from messages and docstrings, which are checked at their source

CLAIMS = ("Claim", "same_weights", "fewer_steps")  # the functions that make claims
AROUND = 24  # letters shown before and after a phrase
NUMBER = r"(?:\d[\d,.]*(?<![,.])|one|two|three|four|five|six|eight|ten|twelve|sixteen|few|several|many|N|G|once|twice)"
COUNTED = r"(?:tokens|problems|prompts|rollouts|trajectories|rows|epochs|seconds|minutes|milliseconds|microseconds|ms|bytes|bits|MB|GB|numbers)"
MANY = r"(?!is |as |gets |makes |has )[a-z-]+s"
UNIT = (
    r"(?:step|run|token|second|minute|hour|day|row|line|batch|mini-batch|micro-batch|group|problem|prompt|turn|answer|sample|update|file|seed|"
    r"sequence|layer|recipe|method|trajectory|action|word|page|test|call|player|process|core|device|episode|completion|round|slot|context)"
)


@dataclass(frozen=True)
class Rule:
    """A pattern (case matters in it alone), and the replacement that a finding names."""

    pattern: str
    instead: str
    named: bool = False  # the group `name` of the pattern must be a field or a parameter (`Prose.names`), or contain an underscore


RULES: Mapping[str, Rule] = {
    "per": Rule(
        rf"\b(?:{NUMBER}(?: {MANY})?|one (?!is |as |of |in |by |to |for |that |where )[a-z]+|{COUNTED}(?= an? \w+ *(?:$|[.,;:|)]))) an? {UNIT}\b",
        '"per step" for a rate: "8 tokens per step"',
    ),
    "mend": Rule(r"\b[Mm]end(?:s|ed|ing)?\b", '"fix"'),
    "told": Rule(r"\b(?:is|are|was|were|be|been|being) (?:\w+ly |not |then |also )?(?:said|told)\b", 'the active form: "the message names ..."'),
    "whoever": Rule(r"\b(?i:whoever|nobody|whatever|whichever|that which|those who)\b", "a noun: the user, no user, any value"),
    "as of": Rule(r"\b[Aa]s of\b(?!=)", '"as in", "as for" or "like"'),
    "beside": Rule(r"\b[Bb]eside\b", '"next to" or "in addition to"'),
    "own": Rule(r"\bof (?:its|their|one's) own\b", '"its own X" in place of "an X of its own"'),
    "where": Rule(r"(?:(?:^|(?<=[.;] ))Where\b[^.:;]*,|\bwhere there (?:is|are)\b|\bRaises:? \w+ where\b)", '"if" for a condition'),
    "what": Rule(r"\b(?:W|w)hat\b(?! if\b)(?![^.?!]*\?)", "a noun: the value, the result, the reason"),
    "archaic": Rule(
        r"\b(?:anew|for ever|lest|whereof|wherein|whereby|therein|thereof|thereby|hereby|hence|thus|albeit|amiss|henceforth|heretofore)\b",
        'a plain word: "again", "so", "by this"',
    ),
    "inverted": Rule(
        r"(?:^|(?<=[.;:] ))(?:Before|After|In|On|At|Of|With|Without|Under|From|Behind|Among|Between) (?:[\w'-]+ ){1,5}?"
        r"(?:may stand|stands?|lies?|goes|comes?) (?:a|an|the|no|one)\b",
        "subject before verb",
    ),
    "so": Rule(r"\bsays? so\b", 'the content: "the message names the limit"'),
    "holds": Rule(r"\b(?:[Rr]ules?|[Cc]onditions?|[Ll]imits?|[Bb]ounds?|This) (?:that |also |still )?holds?\b(?! (?:a|an|the|\w+s)\b)", '"applies" or "is true"'),
    "colons": Rule(r"\b(?:Use|Avoid) if: [^.:]*: ", '", because ..." in place of the second colon'),
    "single": Rule(r"\bmini-batch(?:es)?(?: of [\w ]+)?[;:,] with one(?=,)", '"with a single mini-batch"'),
    "memory": Rule(r"\bmemory (?:holds|has (?:no )?room)\b", '"the memory is large enough for"'),
    "pronoun": Rule(r"(?:^|(?<=[.;:!?] ))(?:Its|Their|They|Those)\b", 'the noun: "The workers save ...", "The default of this field is ..."'),
    "so do": Rule(r"\b(?:and|but|or|[,;]) so (?:is|are|do|does|has|have|can|did|was|were)\b(?! not\b)", 'a verb: "the key does not change, either"'),
    "equals": Rule(r"(?:^|(?<=[.;:] ))(?:Of|Among) (?:equals?|several|equally \w+)\b(?! (?:size|length|parts))", '"if several scores are equal, ..."'),
    "trained on": Rule(r"\btrained on(?=$|[.,;:)]| (?:and|but|if|when|in|while)\b)", '"training uses ..." or "no update uses ..."'),
    "without one": Rule(r"\bwithout one(?=$|[.,;:)])", 'the noun: "without a reference"'),
    "field": Rule(
        r"(?:^|(?<=[.:;,(] )|\b(?:and|but|or|so|because|if|when|that) )(?!which |right )(?P<name>[a-z]\w*)(?: and [a-z]\w*)? (?:is|has|needs|must|was)\b"
        r"|\b(?:set|raise|lower) (?P<set>[a-z]\w*) to\b(?! union)",
        'Class.field, --option, or the name in backticks: "`words` is 0"',
        named=True,
    ),
    "idiom": Rule(
        r"\b(?:(?:takes?|took|taking) (?:the|its|their) places? of|[Bb]atch(?:es)? serves?|in flight|side by side|at hand|in hindsight|thr(?:own|ows?) away)\b",
        'a plain word: "replaces", "is used for", "unfinished", "in parallel", "available", "drops"',
    ),
    "sampled": Rule(r"\bthe policy that sampled(?=$|[.,;:)]| and\b)", '"the sampling policy"'),
    "articles": Rule(
        r"(?:^|(?<=[.;:] ))(?:Mean|Policy|Question|Prompt|Reward|Critic|Loss) and (?:[a-z]+ ){1,2}(?:is|are|has|have|gets?|goe?s?|learn|belong)\b",
        '"The mean and the deviation are ..."',
    ),
    "ours": Rule(r"\bOurs (?:is|are)\b", '"Our own choices are ..."'),
    "bytes": Rule(r"\b(?:continu|replay)(?:e|es|ed|s)? to the same bytes\b", '"ends with the same bytes"'),
}
WAITING: Mapping[str, str] = {
    "what": "docs/course",
}


@dataclass(frozen=True)
class Prose:
    """A piece of text that people read: a paragraph, a docstring, a message."""

    file: str  # relative to the root
    line: int  # of its beginning
    text: str
    names: frozenset[str] = frozenset()  # in a message: the fields and parameters of the file, which must not look like words


@dataclass(frozen=True)
class Found:
    rule: str
    file: str
    line: int
    phrase: str  # with some words around it

    @property
    def sentence(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.phrase!r}; use {RULES[self.rule].instead}"


def prose() -> Iterator[Prose]:
    """All text that is checked."""
    docs = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if "recipes" not in p.parts)
    for page in (*PAGES, *(p for p in docs if p not in GENERATED)):
        yield from of_page(page, (ROOT / page).read_text(encoding="utf-8"))
    for path in sorted((ROOT / "gradus").rglob("*.py")):
        yield from of_code(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


def of_page(file: str, text: str) -> Iterator[Prose]:
    """The paragraphs of a page, without code, comments, addresses and generated parts."""
    blank = lambda found: "\n" * found[0].count("\n")  # noqa: E731  keeps the numbers of lines
    for pattern in (r"^<!-- generated: .*?^<!-- end of generated -->$", r"^(?:```|~~~).*?^(?:```|~~~)\s*?$", r"<!--.*?-->"):
        text = re.sub(pattern, blank, text, flags=re.M | re.S)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        if paragraph.strip():
            yield Prose(file, line, re.sub(r"\]\([^)]*\)", "]", paragraph))
        line += paragraph.count("\n")


def of_code(file: str, text: str) -> Iterator[Prose]:
    """The docstrings without doctests, the texts of at least three words, and the comments of fields in a Python file.

    Claims are left out: the hash of a claim covers its sentence, so a new wording would void its measurement.
    """
    lines, tree = text.splitlines(), ast.parse(text)
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    claims = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLAIMS]
    within |= {id(part) for claim in claims for part in ast.walk(claim)}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    names = frozenset(_names(tree))
    for node in ast.walk(tree):
        if id(node) in within:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(v.value) if isinstance(v, ast.Constant) else "`x`" for v in node.values]
            yield from _sentence(file, node.lineno, "".join(parts), names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _sentence(file, node.lineno, node.value, frozenset() if id(node) in alone else names)
        elif isinstance(node, ast.ClassDef):
            for field in (field for field in node.body if isinstance(field, ast.AnnAssign)):
                _, mark, comment = lines[(field.end_lineno or field.lineno) - 1].rpartition("  # ")
                yield from [Prose(file, field.lineno, comment)] if mark else []


def _names(tree: ast.Module) -> Iterator[str]:
    """The fields of the classes and the parameters of the functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _sentence(file: str, line: int, text: str, names: frozenset[str] = frozenset()) -> Iterator[Prose]:
    text = re.sub(r"^ *>>> .*(?:\n *\S.*)*", lambda code: "\n" * code[0].count("\n"), text, flags=re.M)
    if len(text.split()) >= 3:
        yield Prose(file, line, text, names)


def found(text: Prose) -> Iterator[Found]:
    """The findings in a text. Words in backticks are code."""
    plain = re.sub(r"`[^`\n]*`", lambda code: "x" * len(code[0]), text.text)
    flat = re.sub(r"\s", " ", re.sub(r" *\n *(?:[-*>|] )?", lambda gap: " " * len(gap[0]), plain))
    flat = re.sub(r" {2,}", lambda gap: " " + "\0" * (len(gap[0]) - 1), flat)  # a break of lines reads as one space
    kept = [index for index, letter in enumerate(flat) if letter != "\0"]
    read = "".join(flat[index] for index in kept)
    for name, rule in RULES.items():
        for match in re.finditer(rule.pattern, read, re.M):
            if rule.named and not _names_field(match[match.lastgroup or 0], text.names):
                continue
            around = read[max(0, match.start() - AROUND) : match.end() + AROUND]
            yield Found(name, text.file, text.line + text.text[: kept[match.start()]].count("\n"), around.strip())


def _names_field(word: str, names: frozenset[str]) -> bool:
    return bool(names) and (word in names or "_" in word)


def folder(file: str) -> str:
    """The folder under which findings are counted: gradus/cli, docs/how, docs, or the page itself."""
    parts = Path(file).parts
    return "/".join(parts[:-1][:2]) or parts[0]


def findings() -> list[Found]:
    return list(dict.fromkeys(one for text in prose() for one in found(text)))


def new(all_found: Sequence[Found]) -> list[Found]:
    """The findings in folders that do not wait."""
    return [one for one in all_found if folder(one.file) not in WAITING.get(one.rule, "").split()]


def clean(all_found: Sequence[Found]) -> list[str]:
    """The entries of `WAITING` that no longer have a finding."""
    left = {(one.rule, folder(one.file)) for one in all_found}
    return [f"{rule}: {place}" for rule, places in WAITING.items() for place in places.split() if (rule, place) not in left]


def counts(all_found: Sequence[Found]) -> str:
    """A table of the numbers of findings."""
    found_in = Counter((one.rule, folder(one.file)) for one in all_found)
    lines = []
    for rule in RULES:
        places = sorted(((number, place) for (name, place), number in found_in.items() if name == rule), reverse=True)
        lines.append(f"{rule:<9} {sum(n for n, _ in places):5}  " + ", ".join(f"{place} {number}" for number, place in places))
    return "\n".join(lines)


def main() -> int:
    all_found = findings()
    if "--counts" in sys.argv[1:]:
        print(counts(all_found))
        return 0
    wrong = [one.sentence for one in (all_found if "--all" in sys.argv[1:] else new(all_found))]
    wrong += [f"scripts/english.py: {entry} has no finding any more; remove it from WAITING" for entry in clean(all_found)]
    print("\n".join(wrong) or "no phrase that is hard to read in a folder that does not wait")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
