"""Makes question-answer pairs from documents in four stages: filter, label, generate, check. Each stage may drop a document or a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradus.types import UserError


@dataclass(frozen=True)
class SourceDocument:
    """A document with its name."""

    id: str
    text: str


@dataclass(frozen=True)
class FactPair:
    """A question that can be answered without the document, its short answer, and their origin."""

    question: str
    answer: str
    domain: str
    persona: str
    source_text: str
    source_id: str


class PairWriter(Protocol):
    """The steps of the pipeline that a language model carries out. A grammar of templates can carry them out, too."""

    def domain(self, document: SourceDocument) -> str | None:
        """Returns the domain; None if the document is not self-contained or has no fact that can be checked."""
        ...

    def personas(self, document: SourceDocument) -> Sequence[str]:
        """Returns the kinds of readers that ask about the document, the most fitting first."""
        ...

    def pairs(self, document: SourceDocument, persona: str) -> Sequence[tuple[str, str]]:
        """Returns pairs (question, answer): questions that a reader of the kind `persona` asks about the document."""
        ...


@dataclass(frozen=True)
class Limits:
    """The bounds of the pipeline."""

    personas: int = 3  # largest number of personas per document
    ngram: int = 13  # length of an n-gram in words that a question must not share with the evaluation set
    least_words: int = 5  # least number of words of a document
    boilerplate: float = 0.3  # highest share of repeated sentences of a document

    def __post_init__(self) -> None:
        if self.personas < 1 or self.ngram < 1 or self.least_words < 0 or not 0 <= self.boilerplate <= 1:
            raise UserError(f"{self} is out of range; `personas` and `ngram` must be 1 or more, `least_words` 0 or more, and `boilerplate` a share from 0 to 1")


def plain(text: str) -> str:
    """Returns the words of a text in lower case, without punctuation, with single spaces."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def leaks(question: str, answer: str) -> bool:
    """Whether the question contains the answer.

    >>> leaks("In which town, Veld, was she born?", "veld")
    True
    """
    return plain(answer) in plain(question)


def supported(answer: str, text: str) -> bool:
    """Whether the document contains the answer as whole words. An empty answer is not supported."""
    return bool(plain(answer)) and f" {plain(answer)} " in f" {plain(text)} "


def ngrams(text: str, n: int) -> set[tuple[str, ...]]:
    """Returns the n-grams of words of a text."""
    words = plain(text).split()
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def worth_reading(document: SourceDocument, limits: Limits) -> bool:
    """Whether a document is long enough and does not repeat too many of its sentences."""
    sentences = [plain(s) for s in document.text.replace("\n", ".").split(".") if plain(s)]
    repeated = 1 - len(set(sentences)) / len(sentences) if sentences else 1.0
    return len(plain(document.text).split()) >= limits.least_words and repeated <= limits.boilerplate


def pairs_of(
    documents: Iterable[SourceDocument], writer: PairWriter, *, evaluation: Sequence[str] = (), limits: Limits | None = None
) -> tuple[list[FactPair], Counter[str]]:
    """Returns the pairs in the order of the documents, and, for each reason, the number of documents and pairs that were dropped.

    The reasons: filter (length, boilerplate), domain (no checkable fact), leak (the question contains the answer), unsupported (the document does not have the
    answer), evaluation (an n-gram of the question is in the evaluation set), twice (a question that an earlier pair has).
    """
    limits = limits or Limits()
    barred = {gram for text in evaluation for gram in ngrams(text, limits.ngram)}
    found: dict[str, FactPair] = {}
    dropped: Counter[str] = Counter()
    for document in documents:
        domain = writer.domain(document) if (worth := worth_reading(document, limits)) else None
        if domain is None:
            dropped["domain" if worth else "filter"] += 1
            continue
        for persona in list(dict.fromkeys(writer.personas(document)))[: limits.personas]:
            for question, answer in writer.pairs(document, persona):
                pair = FactPair(question, answer, domain, persona, document.text, document.id)
                reason = fault(pair, barred, limits.ngram) or ("twice" if plain(question) in found else None)
                if reason:
                    dropped[reason] += 1
                else:
                    found[plain(question)] = pair
    return list(found.values()), dropped


def fault(pair: FactPair, barred: set[tuple[str, ...]], n: int) -> str | None:
    """Returns the reason to drop a pair; None if the pair can be kept."""
    if leaks(pair.question, pair.answer):
        return "leak"
    if not supported(pair.answer, pair.source_text):
        return "unsupported"
    return "evaluation" if ngrams(pair.question, n) & barred else None
