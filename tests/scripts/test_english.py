"""The rules of prose: each finds its phrases and no others, in pages and in code; the tree keeps them in every folder that does not wait."""

from __future__ import annotations

import pytest

from scripts import english
from scripts.english import RULES, WAITING, Prose, clean, findings, found, new, of_code, of_page

WRONG = {
    "per": ("It reads 8 tokens a step.", "one answer a problem", "It is asked once a step, by name.", "two a turn", "20 questions a batch", "tokens a step."),
    "mend": ("an error that you can mend", "Mend the file", "the row was mended"),
    "told": ("It is told at the start.", "which cannot be told", "as was said"),
    "whoever": ("whoever asks", "Nobody can make it.", "whatever the size"),
    "as of": ("as of `gradus compare`",),
    "beside": ("the file beside the model",),
    "own": ("a process of its own", "players of their own"),
    "where": ("Raises UserError where it fails.", "Where a bound is met, the gradient is 0.", "0 where there is none"),
    "what": ("It says what is missing.", "What follows is a list."),
    "archaic": ("trained anew", "for ever", "and hence equal"),
    "so": ("A note says so.",),
    "holds": ("the first rule that holds", "If all conditions hold, it runs.", "This holds for all."),
    "pronoun": ("Their names are words.", "It ends. They save it."),
    "so do": ("The key stays, and so does the name.", "Roles differ; so do prompts."),
    "equals": ("Of equal scores the first wins.", "Among several such rows the first is taken."),
    "trained on": ("the tokens that are trained on", "Rows that are never trained on if they fail."),
    "without one": ("It does not apply without one.", "the title; without one, the name"),
    "field": ("words is 0; use 1 or more", "task facts: words has no number", "the weight is 0, but top_p is 2", "set words to 1"),
    "idiom": ("The task takes the place of the set.", "A batch serves one update.", "groups in flight", "two run side by side"),
    "sampled": ("the ratio to the policy that sampled.", "near the policy that sampled"),
    "articles": ("Mean and deviation are over all tokens.", "It ends. Policy and critic learn."),
    "ours": ("Ours are the numbers.",),
    "bytes": ("a run that continues to the same bytes",),
    "colons": ("Avoid if: rewards are equal: all advantages are then 0.",),
    "single": ("cut into 8 mini-batches: with one, the ratio is 1", "four mini-batches of whole answers; with one, none"),
    "memory": ("and memory holds a critic", "memory has no room for it"),
    "inverted": ("Before a block may stand a line.", "At the end stands the list."),
}
RIGHT = (
    "8 tokens per step; one of a step is left; one answer per problem. The number of rows a context has. 65,530, and a line more.",
    "Fix the file. The message names the fault. A user can make it. See the folder where the file lies. `mend` and `as of` are code.",
    "Gated.words is 0; set `words` to 1. --words is 0, and its words is a name: `words` is 0.",
    "What is a step? One task as of=NAME. The file next to the model. It has its own process. What if it fails?",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_its_phrases(rule: str) -> None:
    for text in WRONG[rule]:
        (one,) = found(Prose("a.md", 3, f"A line.\n{text}", frozenset({"words"})))
        assert (one.rule, one.line) == (rule, 4)
        assert one.sentence.startswith(f"a.md:4: {rule}: ")
        assert one.sentence.endswith(RULES[rule].instead)


@pytest.mark.parametrize("text", RIGHT)
def test_good_sentences_are_left_alone(text: str) -> None:
    assert list(found(Prose("a.md", 1, text, frozenset({"words"})))) == []


def test_a_phrase_may_stretch_over_two_lines() -> None:
    (one,) = found(Prose("a.md", 1, "A line.\nIt reads 8 tokens\n  a step."))
    assert (one.rule, one.line) == ("per", 2)


def test_pages_are_read_without_their_code() -> None:
    page = "# A\n\n<!-- not run: mend -->\n\n```sh\nmend it\n```\n\nA [mended](mend.md) row.\n\n<!-- generated: x -->\nmend\n<!-- end of generated -->\n"
    assert [(one.rule, one.line) for text in of_page("a.md", page) for one in found(text)] == [("mend", 9)]


def test_code_is_read_by_its_docstrings_messages_and_comments_of_fields() -> None:
    code = '"""Mend the file now."""\nclass A:\n    size: int = 1  # tokens to mend\n\nmend = 1  # mend\nsay(f"in {mend} mend the row")\nshort = "mend"\n'
    assert sorted(one.line for text in of_code("a.py", code) for one in found(text)) == [1, 3, 6]


def test_the_tree_is_clean_where_it_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    all_found = findings()
    assert [one.sentence for one in new(all_found)] == []
    assert clean(all_found) == []  # the list only shrinks
    monkeypatch.setattr(english, "WAITING", {"mend": "gone"})
    assert clean(all_found) == ["mend: gone"]


def test_only_known_rules_wait() -> None:
    assert WAITING.keys() <= RULES.keys() == WRONG.keys()
