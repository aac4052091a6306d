"""Formats of data sets of questions with short answers, with or without the documents that contain the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradus.tasks.data.files import Row
from gradus.tasks.formats.format import Format, Malformed, concluded, kept, parsed, text, texts, value


def passages(context: Any) -> list[dict[str, str]]:
    """Returns the documents of a row of HotpotQA as {"title", "text"}. `context` is a list of [title, sentences], or an object with the lists `title` and
    `sentences`."""
    pairs: Any = zip(context.get("title", ()), context.get("sentences", ())) if isinstance(context, Mapping) else context
    try:
        return [{"title": str(title), "text": "".join(sentences)} for title, sentences in pairs]
    except (TypeError, ValueError):
        raise Malformed("context", "must be a list of [title, sentences]; give the official file") from None


def reading(documents: Sequence[Mapping[str, str]], question: str) -> str:
    """Returns the prompt of a question about documents: each document with its number and title, then the question."""
    listed = "\n\n".join(f"Document {number}: {one['title']}\n{one['text']}" for number, one in enumerate(documents, start=1))
    return f"{listed}\n\nQuestion: {question}"


def _hotpotqa(row: Row) -> Row:
    found = {"prompt": text(row, "question"), "answer": text(row, "answer"), **kept(row, "type", "level", "supporting_facts")}
    return found | ({"passages": passages(row["context"])} if row.get("context") else {})


def _hotpotqa_reading(row: Row) -> Row:
    documents = passages(value(row, "context"))
    return _hotpotqa(row) | {"prompt": reading(documents, text(row, "question"))}


def _musique(row: Row) -> Row:
    if row.get("answerable") is False:
        raise Malformed("answerable", "is false, so the documents have no answer; leave such rows out with --task.bad_rows")
    documents = value(row, "paragraphs")
    if not isinstance(documents, list) or not all(isinstance(one, Mapping) for one in documents):
        raise Malformed("paragraphs", "must be a list of objects; give the official file")
    given = [{"title": text(one, "title"), "text": text(one, "paragraph_text")} for one in documents]
    answers = [text(row, "answer"), *(texts(row, "answer_aliases") if row.get("answer_aliases") else [])]
    return {"prompt": text(row, "question"), "answer": answers, "passages": given, **kept(row, "question_decomposition")}


def _musique_reading(row: Row) -> Row:
    found = _musique(row)
    return found | {"prompt": reading(found["passages"], found["prompt"])}


def _golden(row: Row) -> Row:
    return {"prompt": text(row, "question"), "answer": texts(row, "golden_answers"), **kept(row, "data_source", "metadata")}


def _triviaqa(row: Row) -> Row:
    first = text(row, "answer", "value")
    aliases = texts(row, "answer", "aliases") if row["answer"].get("aliases") else []
    return {"prompt": text(row, "question"), "answer": [first, *(alias for alias in aliases if alias != first)], **kept(row, "question_id", "question_source")}


def _nq_open(row: Row) -> Row:
    return {"prompt": text(row, "question"), "answer": texts(row, "answer")}


def _popqa(row: Row) -> Row:
    answers = texts({"possible_answers": parsed(row, "possible_answers")}, "possible_answers")
    return {"prompt": text(row, "question"), "answer": answers, **kept(row, "subj", "prop", "obj", "s_pop", "o_pop")}


def _narrativeqa(row: Row) -> Row:
    answers = value(row, "answers")
    if not isinstance(answers, list) or not answers:
        raise Malformed("answers", "must be a list of objects; give the official file")
    prompt = f"{text(row, 'document', 'summary', 'text')}\n\nQuestion: {text(row, 'question', 'text')}"
    return {"prompt": prompt, "answer": [text(one, "text") for one in answers]}


def _longbench(row: Row) -> Row:
    question = row.get("input")
    prompt = f"{text(row, 'context')}\n\n{question}" if isinstance(question, str) and question.strip() else text(row, "context")
    return {"prompt": prompt, "answer": texts(row, "answers"), **kept(row, "dataset", "language", "length", "all_classes")}


def _pubmedqa(row: Row) -> Row:
    given = next((path for path in (("context", "contexts"), ("CONTEXTS",)) if row.get(path[0]) is not None), ("context", "contexts"))
    question = next((name for name in ("question", "QUESTION") if name in row), "question")
    prompt = "\n".join([*texts(row, *given), f"Question: {text(row, question)} Answer yes, no or maybe."])
    return {"prompt": prompt, "answer": text(row, "final_decision"), "solution": concluded(row.get("long_answer"), text(row, "final_decision"))}


FORMATS = (
    Format(
        "hotpotqa", "question, answer, context; the prompt is the question alone",
        ("hotpotqa/hotpot_qa", "framolfese/2WikiMultihopQA"), _hotpotqa, "short_answer",
    ),
    Format("hotpotqa_reading", "as hotpotqa; the prompt has all documents of context", (), _hotpotqa_reading, "short_answer"),
    Format("musique", "question, answer, answer_aliases, paragraphs; the prompt is the question alone", ("dgslibisey/MuSiQue",), _musique, "short_answer"),
    Format("musique_reading", "as musique; the prompt has all paragraphs", (), _musique_reading, "short_answer"),
    Format("golden_answers", "question, list golden_answers", ("RUC-NLPIR/FlashRAG_datasets", "PeterJinGo/nq_hotpotqa_train"), _golden, "short_answer"),
    Format("triviaqa", "question, answer.value, answer.aliases", ("mandarjoshi/trivia_qa",), _triviaqa, "short_answer"),
    Format("nq_open", "question, list answer", ("google-research-datasets/nq_open",), _nq_open, "short_answer"),
    Format("popqa", "question, possible_answers as JSON", ("akariasai/PopQA",), _popqa, "short_answer"),
    Format("narrativeqa", "document.summary.text, question.text, answers", ("deepmind/narrativeqa",), _narrativeqa, "short_answer"),
    Format("longbench", "context, input, list answers", ("THUDM/LongBench", "Xnhyacinth/LongBench"), _longbench, "short_answer"),
    Format("pubmedqa", "context.contexts, question, final_decision", ("qiaojin/PubMedQA",), _pubmedqa),
)  # fmt: skip
