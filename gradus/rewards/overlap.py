"""Measures of the overlap of two texts, and a reward that compares an answer with the stored answer by one of these measures.

All measures are in [0, 1]. The functions of sequences take words or characters. F1 means the harmonic mean of precision and recall.
"""

from __future__ import annotations

import difflib
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.types import NOT_APPLICABLE, Frozen, Group, Outcome, Problem, UserError, unknown
from gradus.types.answers import final_answer
from gradus.types.edits import edit_distance
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

_LONGEST = 2000  # characters of a text that are compared, because some measures take quadratic time
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain_words(text: str) -> list[str]:
    """Returns the words in lower case, without punctuation and articles. Rajpurkar et al., SQuAD, arXiv:1606.05250 (evaluation script).

    >>> plain_words("The Eiffel Tower, Paris!")
    ['eiffel', 'tower', 'paris']
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def contains(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Returns whether `shorter` occurs in `longer` as consecutive words. An empty sequence occurs nowhere."""
    count = len(shorter)
    return count > 0 and any(list(longer[i : i + count]) == list(shorter) for i in range(len(longer) - count + 1))


def exact(said: str, due: str) -> float:
    """Returns 1.0 if the texts have the same `plain_words`, else 0.0."""
    return float(plain_words(said) == plain_words(due))


def f1(common: int, said: int, due: int) -> float:
    """Returns the harmonic mean of common / said and common / due; 0 if nothing is common."""
    return 2 * common / (said + due) if common else 0.0


def token_f1(said: str, due: str) -> float:
    """Returns the F1 of the two multisets of `plain_words`. Two texts without words count as equal.

    >>> token_f1("the blue house", "a blue car in Rome")
    0.3333333333333333
    """
    a, b = plain_words(said), plain_words(due)
    return f1((Counter(a) & Counter(b)).total(), len(a), len(b)) if a and b else float(a == b)


def grams(items: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    """Returns the n-grams of n = `order` items, with their numbers."""
    return Counter(tuple(items[i : i + order]) for i in range(len(items) - order + 1))


def bleu(said: Sequence[Hashable], due: Sequence[Hashable], order: int = 4, *, smooth: bool = False) -> float:
    """Returns BLEU of one sentence against one reference: min(1, exp(1 - |due| / |said|)) times the geometric mean of the precisions of 1- to `order`-grams.

    Without `smooth`, BLEU is 0 if any precision is 0. With `smooth`, the k-th precision without a match becomes 1 / (2^k * n-grams), and orders longer than `said`
    are left out. Papineni et al., BLEU, ACL 2002; Chen & Cherry, WMT 2014, method 3 (smoothing).
    """
    if not said or not due:
        return 0.0
    logs, halves = [], 0
    for n in range(1, order + 1):
        own = grams(said, n)
        match, total = (own & grams(due, n)).total(), own.total()
        if total == 0 and smooth:
            continue
        if match == 0:
            if not smooth:
                return 0.0
            halves += 1
        logs.append(math.log(match / total if match else 1 / (2**halves * total)))
    if halves == len(logs):
        return 0.0
    return min(1.0, math.exp(1 - len(due) / len(said))) * math.exp(math.fsum(logs) / len(logs))


def chrf(said: str, due: str, order: int = 6, beta: float = 2.0) -> float:
    """Returns the F-score of the mean precision and the mean recall of character n-grams, n = 1 to `order`, without blanks.

    An order counts only if both texts have n-grams of this order. Popovic, chrF, WMT 2015; recall has beta^2 times the weight of precision.
    """
    a, b = "".join(said.split()), "".join(due.split())
    pairs = [(grams(a, n), grams(b, n)) for n in range(1, min(order, len(a), len(b)) + 1)]
    if not pairs:
        return 0.0
    matches = [(x & y).total() for x, y in pairs]
    precision = math.fsum(m / x.total() for m, (x, _) in zip(matches, pairs, strict=True)) / len(pairs)
    recall = math.fsum(m / y.total() for m, (_, y) in zip(matches, pairs, strict=True)) / len(pairs)
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall) if precision + recall else 0.0


def rouge_words(text: str) -> list[str]:
    """Returns the words of ROUGE: runs of a to z and 0 to 9 in lower case."""
    return re.findall(r"[a-z0-9]+", text.lower())


def rouge_n(said: Sequence[Hashable], due: Sequence[Hashable], order: int = 1) -> float:
    """Returns the F1 of n-grams, n = `order`. Lin, ROUGE, 2004."""
    a, b = grams(said, order), grams(due, order)
    return f1((a & b).total(), a.total(), b.total())


def rouge_l(said: Sequence[Hashable], due: Sequence[Hashable]) -> float:
    """Returns the F1 of the longest common subsequence. Lin, ROUGE, 2004.

    >>> rouge_l("the cat sat".split(), "the dog sat".split())
    0.6666666666666666
    """
    row = [0] * (len(due) + 1)
    for item in said:
        before = 0
        for j, other in enumerate(due, 1):
            before, row[j] = row[j], before + 1 if item == other else max(row[j], row[j - 1])
    return f1(row[-1], len(said), len(due))


def edit_ratio(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Returns 1 - edit distance / length of the longer sequence; 1 for two empty sequences."""
    longer = max(len(a), len(b))
    return 1 - edit_distance(a, b) / longer if longer else 1.0


def match_ratio(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Returns 2 M / (|a| + |b|), with M items in matching blocks. Ratcliff & Metzener, 1988, as in the module difflib."""
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def jaccard(a: Iterable[Hashable], b: Iterable[Hashable]) -> float:
    """Returns |A and B| / |A or B| of the two sets; 1 for two empty sets."""
    one, two = set(a), set(b)
    return len(one & two) / len(one | two) if one or two else 1.0


MEASURES: Mapping[str, Callable[[str, str], float]] = Frozen(
    exact=exact,
    f1=token_f1,
    bleu=lambda a, b: bleu(a.split(), b.split(), smooth=True),
    chrf=chrf,
    rouge_l=lambda a, b: rouge_l(rouge_words(a), rouge_words(b)),
    edit=edit_ratio,
    match=match_ratio,
    jaccard=lambda a, b: jaccard(plain_words(a), plain_words(b)),
)
"""The name of a measure -> its function. The arguments are the text of the answer and the stored text."""


def part(completion: str, of: str) -> str | None:
    """Returns the part of a completion that is compared. `of` "all": the whole completion. "final": the part of the final answer after its last "=". Any
    other word: the text between the last pair of tags with this name. Returns None if the part is missing.

    >>> [part("<answer>a</answer> b=c", of) for of in ("all", "final", "answer", "think")]
    ['<answer>a</answer> b=c', 'c', 'a', None]
    """
    if of == "all":
        return completion
    if of == "final":
        return final_answer(completion).rpartition("=")[2].strip()
    found = re.findall(f"<{of}>(.*?)</{of}>", completion, re.DOTALL)
    return found[-1].strip() if found else None


@dataclass(frozen=True)
class Overlap(Combines):
    """The overlap of an answer with the stored answer, in [0, 1]; the largest value if several answers are stored. The reward does not apply without
    a stored answer.

    A missing part has the value 0. Texts are compared up to 2,000 characters. An overlap of 1 marks the answer as right, if the reward has no verdict.
    """

    measure: str = "chrf"  # exact, f1, bleu, chrf, rouge_l, edit, match or jaccard
    of: str = "final"  # "all", "final", or the name of the tags around the answer, such as "answer"
    least: float = 0.0  # an overlap below this bound counts as 0
    name: ClassVar[str] = "overlap"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise unknown("measure", self.measure, MEASURES, "Overlap.measure names it")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", self.of):
            raise UserError(f'Overlap.of is "{self.of}"; give "all", "final", or the name of a tag without brackets')

    def value(self, problem: Problem, completion: str) -> Outcome:
        """Returns the overlap of one completion."""
        stored = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
        due = [str(answer)[:_LONGEST] for answer in stored if answer is not None]
        said = part(completion, self.of)
        if not due:
            return NOT_APPLICABLE
        found = 0.0 if said is None else max(MEASURES[self.measure](said[:_LONGEST], text) for text in due)
        return found if found >= self.least else 0.0

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[self.value(t.problem, t.completion) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]


@dataclass(frozen=True)
class Matches:
    """A verifier of short answers: their overlap with the stored answer by one measure; the largest value if several answers are stored."""

    measure: str = "exact"  # as in `Overlap`

    def __post_init__(self) -> None:
        Overlap(self.measure)

    def __call__(self, problem: Problem, answer: str) -> Outcome:
        return Overlap(self.measure, of="all").value(problem, answer)
