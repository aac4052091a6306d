"""Overlap of texts: numbers worked by hand, the field's packages, and the edge cases of each measure."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from gradus.rewards.overlap import (
    MEASURES,
    Overlap,
    bleu,
    chrf,
    edit_ratio,
    exact,
    jaccard,
    match_ratio,
    part,
    rouge_l,
    rouge_n,
    rouge_words,
    token_f1,
)
from gradus.testing.methods import toy_trajectory
from gradus.types import NOT_APPLICABLE, Group, Problem, UserError

WORDS = ["a", "the", "cat", "dog", "sat", "on", "mat", "in", "rome", "7"]


def texts(count: int = 60) -> list[tuple[str, str]]:
    rng = random.Random(3)
    draw = lambda: " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 9)))  # noqa: E731
    return [(draw(), draw()) for _ in range(count)]


def test_words_by_hand() -> None:
    assert exact("The Cat.", "a cat") == 1.0
    assert exact("cat", "cats") == 0.0
    assert token_f1("blue house", "blue car in rome") == pytest.approx(2 * 1 / 6)
    assert token_f1("cat cat", "cat") == pytest.approx(2 / 3)  # a repeated word counts once
    assert (token_f1("the", "a"), token_f1("the", "cat")) == (1.0, 0.0)
    assert jaccard("ab", "bc") == pytest.approx(1 / 3)
    assert (jaccard("", ""), jaccard("a", "")) == (1.0, 0.0)


def test_bleu_by_hand() -> None:
    # words 3 of 4, pairs 2 of 3, lengths 4 and 4
    assert bleu(["a", "b", "c", "x"], ["a", "b", "c", "d"], 2) == pytest.approx(math.sqrt(3 / 4 * 2 / 3))
    # the brevity penalty exp(1 - 4/2)
    assert bleu(["a", "b"], ["a", "b", "c", "d"], 2) == pytest.approx(math.exp(-1))
    assert bleu(["a", "b", "c", "x"], ["a", "b", "c", "d"]) == 0.0  # no common run of 4
    # with smoothing: 3/4, 2/3, 1/2, then 1 / (2 * 1)
    assert bleu(["a", "b", "c", "x"], ["a", "b", "c", "d"], smooth=True) == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25)
    assert (bleu([], ["a"]), bleu(["a"], []), bleu(["a"], ["b"], smooth=True)) == (0.0, 0.0, 0.0)


def test_rouge_and_edits_by_hand() -> None:
    assert rouge_l("abcd", "acbd") == pytest.approx(3 / 4)  # a b d, or a c d
    assert rouge_l("ab", "xaybzz") == pytest.approx(2 * 2 / 8)
    assert (rouge_l("", "a"), rouge_n("ab", "xy")) == (0.0, 0.0)
    assert rouge_n("aab", "ab", 2) == pytest.approx(2 * 1 / 3)
    assert edit_ratio("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert (edit_ratio("", ""), edit_ratio("a", "")) == (1.0, 0.0)
    assert match_ratio("abcd", "bcde") == pytest.approx(2 * 3 / 8)


def test_chrf_by_hand() -> None:
    # one letter: 1 of 2 and 1 of 2; two letters: 0 of 1 and 0 of 1; so precision = recall = 1/4
    assert chrf("ab", "ac") == pytest.approx(0.25)
    assert chrf("a b", "ab") == 1.0
    assert (chrf("", "a"), chrf("x", "a")) == (0.0, 0.0)


def test_against_sacrebleu() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    metric, other = sacrebleu.BLEU(tokenize="none", effective_order=True), sacrebleu.CHRF()
    for said, due in texts():
        assert 100 * bleu(said.split(), due.split(), smooth=True) == pytest.approx(metric.sentence_score(said, [due]).score, abs=1e-9)
        assert 100 * chrf(said, due) == pytest.approx(other.sentence_score(said, [due]).score, abs=1e-9)


def test_against_rouge_score() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1", "rouge2", "rougeL"])
    for said, due in texts():
        theirs = scorer.score(due, said)
        a, b = rouge_words(said), rouge_words(due)
        assert rouge_n(a, b, 1) == pytest.approx(theirs["rouge1"].fmeasure)
        assert rouge_n(a, b, 2) == pytest.approx(theirs["rouge2"].fmeasure)
        assert rouge_l(a, b) == pytest.approx(theirs["rougeL"].fmeasure)


def test_every_measure_is_1_for_equal_texts_and_in_range() -> None:
    for name, measure in MEASURES.items():
        assert measure("cat sat on mat in rome", "cat sat on mat in rome") == pytest.approx(1.0), name
        assert all(0 <= measure(a, b) <= 1 + 1e-12 for a, b in texts(20)), name


def test_the_part_that_is_compared() -> None:
    text = "x <answer>a</answer> y <answer> b </answer> 1+1=2"
    assert [part(text, of) for of in ("answer", "final", "think", "all")] == ["b", "2", None, text]


def score(reward: Overlap, answer: object, *completions: str) -> list[object]:
    rows = tuple(toy_trajectory([2]).but(completion=c, problem=Problem("p", "t", text="q", answer=answer)) for c in completions)
    ((*found,),) = asyncio.run(reward.score([Group("g", rows)], {}, None))  # type: ignore[arg-type]
    assert all(j.components == {"overlap": j.reward} for j in found)
    return [j.reward for j in found]


def test_the_reward() -> None:
    assert score(Overlap("f1"), "blue car in rome", "=blue house", "=", "blue car in rome") == [pytest.approx(1 / 3), 0.0, 1.0]
    assert score(Overlap("f1", of="answer"), "cat", "cat", "<answer>cat</answer>") == [0.0, 1.0]
    assert score(Overlap("f1"), ["dog", "cat"], "=cat") == [1.0]  # the best of several stored answers
    assert score(Overlap(), None, "=cat") == [NOT_APPLICABLE]
    assert score(Overlap("rouge_l", least=0.75), "a b c d", "=a b", "=a b c") == [0.0, pytest.approx(6 / 7)]


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown measure .f2.; known: bleu"):
        Overlap("f2")
    with pytest.raises(UserError, match=r"Overlap\.of"):
        Overlap(of="<answer>")
