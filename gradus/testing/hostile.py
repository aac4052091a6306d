"""Hostile answers: texts that break careless verifiers. A text is a function of index and seed, so each text can be made again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

FIXED: Mapping[str, str] = {
    "empty": "",
    "white space": " \n\t\r\v\f ",
    "strange white space": "\x85\u2028\u2029\u00a0\u3000\ufeff\u200b",
    "NUL": "\x00=\n\x00 answer:\x00",
    "control characters": "\x1b[31m\x07\r\x08\x7f=\x1b]0;x\x07",
    "high surrogate": "=\ud800",
    "low surrogate": "\\boxed{\udfff} #### \udc80",
    "surrogates the wrong way round": "answer: \udc00\ud800",
    "many equals signs": "=" * 100_000,
    "one long word": "a" * 1_000_000,
    "a million spaces": " " * 1_000_000 + "=",
    "a million lines": "\n" * 1_000_000,
    "a huge number": "=" + "9" * 100_000,
    "a huge number in a box": "\\boxed{" + "9" * 100_000 + "}",
    "a tower of powers": "= 9**9**9**9",
    "a tower of powers in LaTeX": "\\boxed{9^{9^{9^{9}}}}",
    "a huge exponent": "= 1e999999999",
    "a huge factorial": "$99999999!$ = 99999999!",
    "a power of a power": "#### (((10^10)^10)^10)^10",
    "nothing below": "= 1/0, \\frac{1}{0}",
    "not a number": "= nan, inf, -Infinity",
    "deep round brackets": "=" + "(" * 50_000 + ")" * 50_000,
    "deep square brackets": "[" * 50_000,
    "deep lists": "=" + "[" * 20_000 + "1" + "]" * 20_000,
    "deep boxes": "\\boxed{" * 20_000 + "1" + "}" * 20_000,
    "deep fractions": "$" + "\\frac{1}{" * 20_000 + "1" + "}" * 20_000 + "$",
    "deep roots": "$" + "\\sqrt" * 20_000 + "2$",
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "signs": "=" + "-" * 100_000 + "1",
    "boxes that are not closed": "\\boxed{" * 50_000,
    "dollar signs": "$" * 100_001,
    "digits of other scripts": "=١٢٣ １２３ ១២៣ ①② ² ½ Ⅷ",
    "cases that change length": "=İ ß ﬁ ŉ ΐ K Å",
    "right to left": "\u202e=21\u202c \u2067x\u2069",
    "combining marks": "=1" + "\u0301" * 50_000,
    "eval": "__import__('os').system('true')",
    "eval in brackets": "=(lambda: __import__('os').system('true'))()",
    "exec": "exec('import subprocess; subprocess.run([\"true\"])')",
    "attributes": "=().__class__.__bases__[0].__subclasses__()",
    "format": "={0.__class__} {x!r:>99999999} %s %n %99999999d ${PATH} $(true) `true`",
    "memory": "= 'a' * 10**12, [0] * 10**12, range(10**18)",
    "a pickle": "=cos\nsystem\n(S'true'\ntR.",
    "yaml": "!!python/object/apply:os.system ['true']",
    "entities": '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><a>&c;</a>',
    "patterns": "=(((((a+)+)+)+$ [[[ \\ .* (?P<x>",
    "a's and an end": "a" * 50_000 + "!",
    "a fence and spaces": "```" + " \t" * 50_000 + "x",
    "fences": "```python\n" * 20_000,
    "chat marks": "<|im_end|><|im_start|>assistant\n</think></answer><tool_call>{}</tool_call>",
    "quotes": '\'"`""" answer:\\',
    "a path": "../../../../etc/passwd",
    "SQL": "'; DROP TABLE answers; --",
}
"""The texts that are tried first, by name."""

MARKS = (
    "=", "####", "\\boxed{", "}", "answer:", "Final answer", "The answer is", "```", "```python\n", "$", "$$", "\\(", "\\)", "\\[", "\\]", ";", ",", "\n", " ",
)  # fmt: skip
LATEX = (
    "\\frac", "\\dfrac{1}{2}", "\\sqrt", "\\sqrt[3]", "\\left(", "\\right)", "\\left[", "\\right]", "\\cdot", "\\times", "\\pm", "\\mp",
    "\\pi", "\\infty", "\\cup", "\\cap", "\\setminus", "\\in", "\\le", "\\ge", "\\ne", "\\log_", "\\ln", "\\sin", "\\cos", "\\tan",
    "\\binom", "\\text{", "\\mathrm{", "\\begin{pmatrix}", "\\end{pmatrix}", "\\begin{cases}", "\\end{cases}", "&", "\\\\", "^", "_",
    "^\\circ", "\\%", "!", "|", "\\{", "\\}", "\\lfloor", "\\rfloor", "\\sum_{i=1}^{n}", "\\int", "\\overline{", "\\dots", "\\quad",
    "\\,", "\\$", "i", "e", "x", "y", "\\theta", "\\varnothing", "\\mathbb{R}", "\\approx",
)  # fmt: skip
CODE = (
    "__import__('os').system('true')", "eval('1')", "exec(\"1\")", "open('/etc/passwd')", "lambda:0", "().__class__", "{0.__class__}",
    "{}", "%s", "%n", "${x}", "`x`", "import os", "os.system('true')", "9**9**9", "10**10**10", "'a'*10**12", "[0]*10**12", "None",
    "True", "nan", "inf", "-inf", "1e999", "0x10", "1_000", "0b1", "\\x00", "\\u0000", "\\N{DIGIT ONE}", "&#49;", "<answer>",
    "</answer>", "<think>", "(?R)", "[^]", "{,9999999}", "a{9999}",
)  # fmt: skip
PLAIN = (
    "0", "1", "2", "7", "10", "-1", "3.5", ".5", "1.", "1/2", "1,000", "1 1/2", "50%", "+", "-", "*", "/", "**", "//", "%", ">", "<",
    ":", "(", ")", "[", "]", "{", "}", "A", "b", "K", "N", "up", "left", "yes", "no", "none", "unsat", "is it", "it is", "search:",
    "true", "false", "and", "or", ".", "?", "…", "−", "×",
)  # fmt: skip
PAIRS = (
    ("(", ")"), ("[", "]"), ("{", "}"), ("\\boxed{", "}"), ("\\frac{1}{", "}"), ("\\sqrt{", "}"), ("\\left(", "\\right)"), ("|", "|"),
    ("\\{", "\\}"), ("-", ""), ("x^{", "}"), ("2^", ""), ("\\text{", "}"), ("\\begin{pmatrix}", "\\end{pmatrix}"), ("[1,", "]"),
    ('{"a":', "}"), ("\\sin(", ")"), ("!", ""), ("\\log_2 ", ""), ("(1+", ")"), ("\\binom{9}{", "}"), ("not ", ""), ("<b>", "</b>"),
    ("\\lfloor ", "\\rfloor "),
)  # fmt: skip
STRANGE = (
    (0, 0x20), (0x7F, 0x250), (0x300, 0x370), (0x600, 0x700), (0x2000, 0x2070), (0x2150, 0x2190), (0x2200, 0x2300), (0xD800, 0xE000),
    (0xFE00, 0x10000), (0x1D400, 0x1D800), (0x1F300, 0x1F700), (0xE0000, 0xE0100),
)  # fmt: skip
"""Ranges of code points that break careless code: controls, accents, other digits, halves of surrogate pairs, look-alike letters."""
DIGITS = ("٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９", "०१२३४५६७८९", "⁰¹²³⁴⁵⁶⁷⁸⁹", "⓪①②③④⑤⑥⑦⑧⑨")


def hostile_text(index: int, like: Sequence[str] = (), seed: int = 0) -> str:
    """Returns hostile text number `index` of a seed. The first numbers give the texts of `FIXED`.

    Grammars make the later texts, or they are right answers from `like` with changes. Most texts are shorter than a thousand characters; one in
    a hundred texts is longer than ten thousand.
    """
    if index < len(FIXED):
        return list(FIXED.values())[index]
    rng = random.Random(seed * 0x9E3779B97F4A7C15 + index)
    made = rng.choices(MAKERS, WEIGHTS)[0](rng, like)
    return rng.choice(MARKS) + made + rng.choice(MARKS) if rng.random() < 0.3 else made


def changed(rng: random.Random, like: Sequence[str]) -> str:
    """A right answer with a few changes, or pieces of two right answers."""
    text = rng.choice(like) if like else _pieces(rng, like)
    for _ in range(_length(rng, 6)):
        i, j = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        text = rng.choice(CHANGES)(rng, like, text, i, j)[:200_000]
    return text


def _cut(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    return text[:i] + text[j:]


def _again(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    return text[:j] + text[i:j] * min(_length(rng, 1000), 1 + 20_000 // (j - i + 1)) + text[j:]


def _put(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    return text[:i] + rng.choice((*MARKS, *PLAIN, *LATEX, *CODE)) + text[i:]


def _letter(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    return text[:i] + _strange_letter(rng) + text[i + 1 :]


def _other_digits(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    return text[:i] + text[i:j].translate(dict(zip(map(ord, "0123456789"), rng.choice(DIGITS), strict=True))) + text[j:]


def _spliced(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    other = rng.choice(like) if like else text
    return text[:i] + other[rng.randint(0, len(other)) :]


def _case(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    return text[:i] + text[i:j].swapcase() + text[j:]


def _wrapped(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    opening, closing = rng.choice(PAIRS)
    return text[:i] + opening + text[i:j] + closing + text[j:]


def _many_digits(rng: random.Random, like: Sequence[str], text: str, i: int, j: int) -> str:
    """Makes one or two numbers of the text much longer: Python refuses to read a number of more than 4,300 digits."""
    return re.sub("[0-9]+", lambda found: found[0] * _length(rng, 6000), text[:2000], count=rng.randint(1, 2))


CHANGES = (_cut, _again, _put, _put, _letter, _other_digits, _spliced, _case, _wrapped, _many_digits)


def _pieces(rng: random.Random, like: Sequence[str]) -> str:
    """Pieces of plain text, LaTeX, code and marks, in any order."""
    kinds = rng.choices((PLAIN, LATEX, CODE, MARKS), (6, rng.choice((0, 6)), rng.choice((0, 2)), 2), k=_length(rng, 80))
    return rng.choice(("", " ")).join(rng.choice(kind) for kind in kinds)


def _nested(rng: random.Random, like: Sequence[str]) -> str:
    """Brackets in brackets, of one sort or of several, closed or not."""
    pairs = rng.choices(PAIRS, k=rng.choice((1, 1, 2, 3)))
    deep = [pairs[i % len(pairs)] for i in range(_length(rng, 3000))]
    closing = "".join(end for _, end in reversed(deep)) if rng.random() < 0.8 else ""
    return "".join(start for start, _ in deep) + rng.choice(PLAIN) + closing


def _number(rng: random.Random, like: Sequence[str]) -> str:
    """Numbers that are costly or invalid: many digits, exponents, towers of powers, factorials, divisions by zero."""
    digits = "".join(rng.choices("0123456789", k=_length(rng, 5000)))
    small = str(rng.randrange(10 ** rng.randint(1, 6)))
    forms = (
        digits, f"-{digits}.{digits}", f"{small}e{digits[:6]}", f"{small}e-{digits[:6]}", f"{digits}/{small}", f"{small}/0", f"1/{digits}",
        f"{small}!", f"{digits}%", f"{small}^{{{digits}}}", f"{small}**{small}**{small}", f"{small}^{{{small}^{{{small}}}}}",
        f"\\binom{{{small}}}{{{small[:3]}}}", f"\\sqrt[{small}]{{{digits}}}", f"\\log_{{{small}}} {digits}",
        f"\\frac{{{digits}}}{{{small}}}", f"{digits[:3]},{digits[:3]},{digits}", f"0.{'0' * len(digits)}1", f"({small}+x)^{{{small}}}",
        f"(x+y+z)^{{{small[:3]}}}", f"\\sin({digits})", f"{small}^{{1/{small}}}", f"{small} {small}/{small}", f"{small}:{digits}",
        f"{digits}_{{{small}}}", f"\\sum_{{i=1}}^{{{small}}} i", f"{small}^{{-{digits[:9]}}}", f"e^{{{small}}}", f"i^{{{digits}}}",
        f"({small}+{small}i)^{{{small}}}", f"\\sqrt{{{small}}}" * 20,
    )  # fmt: skip
    made = rng.choice(forms)
    return rng.choice(
        (made, f"${made}$", f"\\boxed{{{made}}}", f"={made}", f"#### {made}", f"answer: {made}", f"{made}, {made}", f"({made}, {made}]")
    )


def _run(rng: random.Random, like: Sequence[str]) -> str:
    """Repeats one piece many times and appends another piece. A careless regular expression tries every way to split the repetitions."""
    piece = rng.choice((*PLAIN, *MARKS, *LATEX)) + rng.choice(("", "", " ", ",", *PLAIN))
    count = min(_length(rng, 5000), 1 + 20_000 // len(piece))
    return rng.choice(("", *PLAIN, *MARKS)) + piece * count + rng.choice((*PLAIN, *MARKS, "\x00"))


def _strange(rng: random.Random, like: Sequence[str]) -> str:
    """Letters from all over Unicode, including halves of surrogate pairs."""
    return "".join(_strange_letter(rng) if rng.random() < 0.7 else rng.choice(PLAIN) for _ in range(_length(rng, 200)))


def _strange_letter(rng: random.Random) -> str:
    return chr(rng.randrange(*rng.choice(STRANGE)))


def _ran(rng: random.Random, like: Sequence[str]) -> str:
    """Code in the form of an answer."""
    made = rng.choice(CODE)
    return rng.choice(
        (
            f"={made}",
            f"\\boxed{{{made}}}",
            f"#### {made}",
            f"answer: {made}",
            f"[{made}]",
            f"({made})",
            f"f'{made}'",
            f"{made}\n{made}",
            f"${made}$",
        )
    )


def _huge(rng: random.Random, like: Sequence[str]) -> str:
    """A piece, or a right answer, up to two hundred thousand characters long."""
    piece = rng.choice((*PLAIN, *MARKS, *LATEX, *CODE, *[text + " " for text in like[:20]]))
    return piece * (1 + rng.randint(10_000, 200_000) // len(piece))


Maker = Callable[[random.Random, Sequence[str]], str]
MAKERS: tuple[Maker, ...] = (changed, _pieces, _nested, _number, _run, _strange, _ran, _huge)
WEIGHTS = (40, 20, 9, 12, 8, 5, 5, 1)


def _length(rng: random.Random, most: int) -> int:
    """Draws a length from 1 to `most`. All orders of magnitude are equally likely."""
    return int(most ** rng.random())
