"""Finds the final answer of a text, brings it into a form that can be compared, and sorts completions into classes of equal answers.

The final answer is the text after the last `####`. If the text has no `####`, it is the content of the last `\\boxed{}`, else the text after the last
`answer:`, else the whole text. After `####` and `answer:` the final answer ends at the end of the line. If the expected answer has no "=", only the right
side of an equation is compared: the answer 12+30=42 counts as 42.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

# the limit on digits keeps comparisons cheap, even if a model writes a very long number
_NUMBER = re.compile(r"[-+]?([0-9]{1,100}(\.[0-9]{0,100})?|\.[0-9]{1,100})(e[-+]?[0-9]{1,2})?(/[0-9]{1,100})?")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
EntropyForm = Literal["clusters", "shannon"]
_ABSTAINS = re.compile(r"\b(?:idk|unsure|not sure|(?:do not|don't|dont|don’t) know|cannot answer|can't answer)\b", re.IGNORECASE)
_LABEL = re.compile(r"\banswer\s*:", re.IGNORECASE)


def final_answer(text: str) -> str:
    r"""Returns the final answer of a text, without spaces at its ends.

    >>> [final_answer(text) for text in ("6 * 7 = 42\n#### 42", r"so \boxed{\frac{1}{2}}", "Answer: Paris\nBye", " 42 ")]
    ['42', '\\frac{1}{2}', 'Paris', '42']
    """
    if "####" in text:
        return _line(text.rpartition("####")[2])
    box = boxed(text)
    if box is not None:
        return box
    labels = list(_LABEL.finditer(text))
    return _line(text[labels[-1].end() :]) if labels else text.strip()


def abstains(completion: str) -> bool:
    """Whether a completion abstains: its final answer says that the policy does not know the answer.

    >>> [abstains(text) for text in ("=idk", "#### I don't know.", "=kast", "I do not know why, but\\nanswer: kast")]
    [True, True, False, False]
    """
    return _ABSTAINS.search(final_answer(completion)) is not None


def normalised(text: str) -> str | Fraction:
    """Converts an answer to the form in which answers are compared.

    A number (1,200.50, $3, 1/2, 1e-3) becomes an exact fraction. Other text becomes lower case, with single spaces and no final full stop.
    """
    plain = " ".join(text.replace("−", "-").split()).casefold().rstrip(".").strip()
    bare = _THOUSANDS.sub("", plain.replace("\\$", "").replace("$", "").strip())
    if _NUMBER.fullmatch(bare):
        over, _, under = bare.partition("/")
        if not under or int(under) != 0:
            return Fraction(over) / (int(under) if under else 1)
    return plain


def answered(text: str) -> str | Fraction | None:
    """Returns the answer of a completion in a form that can be compared with the answers of other completions.

    The result is the part of the final answer after the last "=", as `normalised` returns it; None if this part is empty.
    """
    said = final_answer(text).rpartition("=")[2].strip()
    return normalised(said) if said else None


def same_answer(given: str, answer: Any) -> bool:
    """Whether the final answer of the text `given` equals the final answer of `answer` (text, a number, true or false).

    If `answer` has no "=", only the part after the last "=" of the text's final answer is compared.

    >>> [same_answer(text, 42) for text in ("42", "12+30=42", "=42", "x = 42 apples")]
    [True, True, True, False]
    """
    expected, said = final_answer(answer if isinstance(answer, str) else str(answer)), final_answer(given)
    return normalised(said if "=" in expected else said.rpartition("=")[2]) == normalised(expected)


def most_common_answer(completions: Sequence[str], *, missing: bool = False) -> str | Fraction | None:
    """Returns the answer (`answered`) that most completions have; None if no completion has an answer.

    If several answers are equally common, the answer that occurs first wins. A completion without an answer has no vote. With `missing`, completions without
    an
    answer vote together for None.

    >>> most_common_answer(["=7", "=", "=", "1+1=2", "=2.0"])
    Fraction(2, 1)
    """
    counts = Counter(said for text in completions if (said := answered(text)) is not None or missing)  # in the order of first appearance
    return counts.most_common(1)[0][0] if counts else None


def answer_classes(completions: Sequence[str]) -> list[int]:
    """Returns the class number of each completion. Completions with equal answers (`answered`) form one class. Classes are numbered from 0 in the
    order of their first completions. A completion without an answer forms its own class.

    >>> answer_classes(["1+2=3", "answer: 3.0", "= 4", "=", "="])
    [0, 0, 1, 2, 3]
    """
    said = [answered(text) for text in completions]
    numbers: dict[object, int] = {}
    return [numbers.setdefault(("none", at) if answer is None else answer, len(numbers)) for at, answer in enumerate(said)]


def semantic_entropy(counts: Sequence[int], *, form: EntropyForm = "clusters") -> float:
    """Returns the entropy, in nats, of classes that have these numbers of answers. Let p be the share of the answers that are in a class. The entropy is the
    mean of -ln p over the classes ("clusters") or over the answers ("shannon").

    A class without answers does not count. If no class has answers, the entropy is 0.

    >>> [round(semantic_entropy([4, 2, 2], form=form), 4) for form in ("clusters", "shannon")]
    [1.1552, 1.0397]
    """
    found, total = [n for n in counts if n], sum(counts)
    weights = [1 / len(found)] * len(found) if form == "clusters" else [n / total for n in found]
    return math.fsum(w * math.log(total / n) for w, n in zip(weights, found, strict=True))


def macro_f1(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Returns the mean of F1 = 2 TP / (2 TP + FP + FN) over the classes in `truth`. A prediction that is not one of these classes, such as None, is wrong.

    >>> round(macro_f1("aabb", "abbb"), 4)
    0.7333
    """
    classes = dict.fromkeys(truth)
    pairs = list(zip(truth, predicted, strict=True))
    hits = [2 * sum(t == p == c for t, p in pairs) / sum((t == c) + (p == c) for t, p in pairs) for c in classes]
    return sum(hits) / len(hits) if hits else 0.0


def _line(text: str) -> str:
    """The first line that is not blank."""
    return text.strip().partition("\n")[0].strip()


def boxed(text: str) -> str | None:
    """The content of the last \\boxed{...}; None if the text has no box, or if the braces of the box never close."""
    start = text.rfind("\\boxed{")
    depth = 0
    for at in range(start + len("\\boxed"), len(text) if start >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : at].strip()
    return None
