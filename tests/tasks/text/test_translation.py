from __future__ import annotations

import itertools
import re

from gradus.tasks.text.translation import Affix, Clause, Language, Phrase, spoken, translation
from gradus.types import Key
from tests.tasks.contract import check_contract

CLASSES = ("n", "v", "a", "c")


def strip(word: str, mark: str) -> str | None:
    """The word without an affix such as "-es" or "ka-", or None where it does not have it."""
    letters = mark.strip("-")
    if len(word) < 5 or not (word.endswith(letters) if mark.startswith("-") else word.startswith(letters)):
        return None
    return word[:-2] if mark.startswith("-") else word[2:]


def put(word: str, mark: str) -> str:
    return word + mark[1:] if mark.startswith("-") else mark[:-1] + word


def translated(question: str) -> str:
    """An independent translator that reads the prompt alone."""
    told, _, asked = question.partition(";")
    tokens = told.split()
    words = dict(t.split(":") for t in tokens if ":" in t)
    kinds, kind = {}, ""
    for t in tokens:
        kind = t if t in CLASSES else kind
        if ":" in t:
            kinds[t.split(":")[0]] = kind
    rules = [t.split(">") for t in tokens if ">" in t]
    source, target = rules[-1]
    marks = [(a, b) for a, b in rules if "-" in a]
    case = next((b for a, b in rules if a == "O"), None)
    agree = next((b for a, b in rules if a == "Vpl"), None)
    adjective_last = any((a, b) in (("aN", "Na"), ("Na", "Na")) for a, b in rules)
    source_last = any(a == "Na" for a, _ in rules)
    link = next((w for w, k in kinds.items() if k == "c"), None)

    def root(word: str) -> tuple[str, list[int]]:
        if word in words:
            return word, []
        for i, (mark, _) in enumerate(marks):
            if (bare := strip(word, mark)) in words:
                return bare, [i]
        raise AssertionError(word)

    def phrases(clause: list[str]) -> list[list[str]]:
        """Three parts: a noun with its adjective, or a verb."""
        parts: list[list[str]] = []
        for word in clause:
            is_adjective = kinds[root(word)[0]] == "a"
            if (is_adjective and source_last) or (parts and not source_last and kinds[root(parts[-1][-1])[0]] == "a"):
                parts[-1].append(word)
            else:
                parts.append([word])
        return parts

    out = []
    for clause in [list(g) for is_link, g in itertools.groupby(asked.split(), lambda w: w == link) if not is_link]:
        parts = dict(zip(source, phrases(clause), strict=True))
        many = False
        for word in parts["S"]:
            bare, found = root(word)
            many = many or (kinds[bare] != "a" and bool(found))
        done = []
        for role in target:
            made = []
            for word in parts[role]:
                bare, found = root(word)
                new = words[bare]
                for i in found:
                    new = put(new, marks[i][1])
                if role == "O" and case and kinds[bare] == "n":
                    new = put(new, case)
                if role == "V" and agree and many:
                    new = put(new, agree)
                made.append((kinds[bare] == "a", new))
            # a noun and its adjective: (False, noun) sorts first, which is right where adjectives stand behind
            done += [word for _, word in sorted(made, key=lambda m: m[0], reverse=not adjective_last)]
        out.append(" ".join(done))
    return f" {words[link]} ".join(out) if link else out[0]


def test_contract() -> None:
    check_contract(translation(), draws=60)


def test_answers_are_those_of_an_independent_translator() -> None:
    task = translation()
    for level in range(1, 8):
        for p in task.source.draw(range(80), level, Key(0)):
            assert p.answer == translated(p.question), p.question
            words = p.answer.split()
            assert task.verify(p, "=" + " ".join(reversed(words))) == float(words == words[::-1])
            assert task.verify(p, "=" + " ".join(words[:-1])) == 0.0
            assert task.verify(p, p.question.partition(";")[2]) == 0.0


def test_a_clause_by_hand() -> None:
    # dictionary: 0 dog, 1 cat, 2 sees, 3 big.  "big dogs saw the cat"
    first = Language(("dog", "cat", "see", "big"), "SVO", True, Affix("es", False), Affix("ot", False))
    clause = Clause(Phrase(0, True, 3), 2, Phrase(1, False, None), True)
    assert spoken(clause, first) == [("aS", "big"), ("S", "doges"), ("V", "seeot"), ("O", "cat")]
    second = Language(
        ("bek", "sur", "nof", "gip"), "OVS", False, Affix("ka", True), Affix("mi", False), Affix("un", False), Affix("ab", True)
    )
    # the object first with its mark; the verb: past next to the root, then the plural of its subject; the adjective behind its noun
    assert spoken(clause, second) == [("O", "surun"), ("V", "abnofmi"), ("S", "kabek"), ("aS", "gip")]


def test_prompts_tell_the_rules_that_they_need() -> None:
    for level, rules in ((1, 1), (2, 2), (3, 3), (4, 5), (5, 6), (7, 6)):
        (p,) = translation().source.draw([0], level, Key(0))
        assert len(re.findall(r"\S+>\S+", p.question)) == rules
        assert p.question.count(":") == {1: 4, 2: 4, 3: 8, 4: 13, 5: 20, 7: 53}[level]


def test_the_chance_of_picking_words() -> None:
    # level 1: three of four words in some order, 4 * 3 * 2 = 24 ways, one of them right
    task = translation(1)
    right = total = 0
    for p in task.held_out.draw(range(60), None, Key(0)):
        words = [pair.split(":")[1] for pair in re.findall(r"\w+:\w+", p.question)]
        guesses = [" ".join(pick) for pick in itertools.permutations(words, 3)]
        right += sum(task.verify(p, f"={guess}") for guess in guesses)
        total += len(guesses)
    assert right / total == 1 / 24
    assert abs(task.chance - 1 / 24) < 0.005
