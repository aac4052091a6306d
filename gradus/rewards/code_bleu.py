"""CodeBLEU of two Python programs: the mean of BLEU, BLEU with weighted keywords, the match of syntax trees, and the match of data flow."""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gradus.rewards.overlap import bleu

PLAIN = 0.2
"""The weight of a token that is no keyword, in the weighted BLEU. A keyword has the weight 1."""


def tokens(code: str) -> list[str]:
    """Returns the tokens of a program: words, numbers, and single signs.

    >>> tokens("x=min(x,10)")
    ['x', '=', 'min', '(', 'x', ',', '10', ')']
    """
    return re.findall(r"\w+|[^\w\s]", code)


def weighted_bleu(said: Sequence[str], due: Sequence[str]) -> float:
    """Returns BLEU in which the precision of single tokens has weights: 1 for keywords, `PLAIN` for all others."""
    if not said or not due:
        return 0.0
    own, theirs = Counter(said), Counter(due)
    weight = {word: 1.0 if keyword.iskeyword(word) else PLAIN for word in own}
    match = math.fsum(weight[word] * min(count, theirs[word]) for word, count in own.items())
    precision = match / math.fsum(weight[word] * count for word, count in own.items())
    plain = (own & theirs).total() / len(said)
    return bleu(said, due, smooth=True) * (precision / plain) ** (1 / min(4, len(said))) if plain else 0.0


def subtrees(tree: ast.AST) -> Counter[str]:
    """Returns the shapes of all nodes with children, with their numbers. A shape has the types of the nodes, without names and numbers."""
    found: Counter[str] = Counter()

    def shape(node: ast.AST) -> str:
        children = [shape(child) for child in ast.iter_child_nodes(node)]
        text = f"{type(node).__name__}({','.join(children)})"
        if children:
            found[text] += 1
        return text

    shape(tree)
    return found


def flows(tree: ast.AST) -> Counter[tuple[str, tuple[str, ...]]]:
    """Returns (target, sources) for every assignment. Names are numbered in the order in which they occur first."""
    numbers: dict[str, str] = {}
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def names(node: ast.AST) -> list[str]:
        return [numbers.setdefault(n.id, f"v{len(numbers)}") for n in ast.walk(node) if isinstance(n, ast.Name)]

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Return) and node.value is not None:
            sources = tuple(sorted(names(node.value)))
            targets = [] if isinstance(node, ast.Return) else node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in [name for t in targets for name in names(t)] or ["return"]:
                found[target, sources] += 1
    return found


COUNTS: tuple[Callable[[ast.AST], Counter[Any]], ...] = (subtrees, flows)
"""The functions that count parts of the trees of two programs."""


def code_bleu(said: str, due: str) -> float:
    """Returns CodeBLEU of the program `said` against the program `due`, in [0, 1]. A program that is not Python matches no tree and no flow.

    Ren et al., CodeBLEU, arXiv:2009.10297, with the four weights 1/4. The match of trees (and of flow) is the share of the subtrees (and assignments) of `due`
    that `said` contains; it is 1 if `due` has none.
    """
    ours, theirs = tokens(said), tokens(due)
    parts = [bleu(ours, theirs, smooth=True), weighted_bleu(ours, theirs)]
    one, two = _parsed(said), _parsed(due)
    parts += [0.0 if one is None else _matched(counted(one), Counter() if two is None else counted(two)) for counted in COUNTS]
    return sum(parts) / 4


def _matched(own: Counter[Any], wanted: Counter[Any]) -> float:
    return (own & wanted).total() / wanted.total() if wanted else 1.0


def _parsed(code: str) -> ast.AST | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


