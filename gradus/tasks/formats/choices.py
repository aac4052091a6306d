"""Formats of data sets of multiple-choice questions. The prompt gives each option a letter, and the answer is a letter."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from gradus.tasks.data.files import Row
from gradus.tasks.formats.format import Format, Malformed, concluded, kept, text, texts, value, whole

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def asked(question: str, options: Sequence[str], right: int, field: str = "answer", solution: object = None, **more: object) -> Row:
    """Returns the row of a question. `right`: the index of the right option. Raises Malformed, for the column `field`, if no option has this index."""
    if not 0 <= right < len(options):
        raise Malformed(field, f"names option {right + 1} of {len(options)}; give the official file, or leave the row out with --task.bad_rows")
    listed = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options))
    prompt = f"{question.strip()}\n{listed}\nEnd with the line \"Answer: \" and the letter of the right option."
    return {"prompt": prompt, "answer": LETTERS[right], "options": list(options), "solution": concluded(solution, LETTERS[right]), **more}


def _letter(row: Row, *path: str) -> int:
    letter = text(row, *path).strip().upper()
    if letter not in LETTERS:
        raise Malformed(".".join(path), f"is {letter!r:.40}; it must be one letter from A to Z")
    return LETTERS.index(letter)


def _medqa(row: Row) -> Row:
    options = value(row, "options")
    if not isinstance(options, Mapping):
        raise Malformed("options", "must be an object of letters and texts")
    letters = sorted(letter for letter, option in options.items() if option is not None)
    right = text(row, "answer_idx").strip()
    return asked(text(row, "question"), [str(options[n]) for n in letters], letters.index(right) if right in letters else -1, "answer_idx", **kept(row, "meta_info"))


def _medmcqa(row: Row) -> Row:
    options = [text(row, name) for name in ("opa", "opb", "opc", "opd")]
    return asked(text(row, "question"), options, whole(row, "cop"), "cop", solution=row.get("exp"), **kept(row, "subject_name", "topic_name", "choice_type"))


def _mmlu(row: Row) -> Row:
    return asked(text(row, "question"), texts(row, "choices"), whole(row, "answer"), **kept(row, "subject"))


def _mmlu_pro(row: Row) -> Row:
    field = next((name for name in ("answer_letter", "answer") if name in row), "answer")
    more = kept(row, "category", "discipline", "field", "subfield", "difficulty", "src")
    return asked(text(row, "question"), texts(row, "options"), _letter(row, field), field, **more)


def _gpqa(row: Row) -> Row:
    question = text(row, "Question")
    options = [text(row, name).strip() for name in ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")]
    order = sorted(range(4), key=lambda i: hashlib.blake2b(f"{question}\n{options[i]}\n{i}".encode(), digest_size=8).digest())
    more = kept(row, "Subdomain", "High-level domain")
    return asked(question, [options[i] for i in order], order.index(0), "Correct Answer", row.get("Explanation"), **more)


def _labelled(row: Row) -> Row:
    field = next((name for name in ("question", "question_stem") if name in row), "question")
    labels, key = texts(row, "choices", "label"), text(row, "answerKey").strip()
    return asked(text(row, field), texts(row, "choices", "text"), labels.index(key) if key in labels else -1, "answerKey")


def _siqa(row: Row) -> Row:
    question = f"{text(row, 'context')}\n{text(row, 'question')}"
    return asked(question, [text(row, f"answer{letter}") for letter in "ABC"], whole(row, "label") - 1, "label")


def _cosmos(row: Row) -> Row:
    question = f"{text(row, 'context')}\n{text(row, 'question')}"
    return asked(question, [text(row, f"answer{number}") for number in range(4)], whole(row, "label"), "label")


def _winogrande(row: Row) -> Row:
    question = f"Which option fills the gap \"_\"?\n{text(row, 'sentence')}"
    return asked(question, [text(row, "option1"), text(row, "option2")], whole(row, "answer") - 1)


def _scienceqa(row: Row) -> Row:
    hint = row.get("hint")
    question = f"{hint.strip()}\n{text(row, 'question')}" if isinstance(hint, str) and hint.strip() else text(row, "question")
    more = kept(row, "image", "subject", "topic", "grade")
    return asked(question, texts(row, "choices"), whole(row, "answer"), solution=row.get("solution"), **more)


def _medxpertqa(row: Row) -> Row:
    found = _medqa({"question": text(row, "question").partition("\nAnswer Choices:")[0], "options": value(row, "options"), "answer_idx": value(row, "label")})
    return found | kept(row, "medical_task", "body_system", "question_type")


FORMATS = (
    Format("medqa", "question, object options, letter answer_idx", ("GBaker/MedQA-USMLE-4-options",), _medqa, "choice"),
    Format("medmcqa", "question, opa to opd, number cop from 0", ("openlifescienceai/medmcqa",), _medmcqa, "choice"),
    Format("medxpertqa", "question, object options, letter label", ("TsinghuaC3I/MedXpertQA",), _medxpertqa, "choice"),
    Format("mmlu", "question, list choices, number answer from 0", ("cais/mmlu",), _mmlu, "choice"),
    Format("mmlu_pro", "question, list options, a letter in answer or answer_letter", ("TIGER-Lab/MMLU-Pro", "m-a-p/SuperGPQA"), _mmlu_pro, "choice"),
    Format("gpqa", "Question, Correct Answer, Incorrect Answer 1 to 3", ("Idavidrein/gpqa",), _gpqa, "choice"),
    Format(
        "labelled_choices", "question or question_stem, choices.label, choices.text, answerKey",
        ("tau/commonsense_qa", "allenai/openbookqa", "allenai/ai2_arc", "INK-USC/riddle_sense"), _labelled, "choice",
    ),
    Format("social_iqa", "context, question, answerA to answerC, label from 1", ("allenai/social_i_qa", "lighteval/siqa"), _siqa, "choice"),
    Format("cosmos_qa", "context, question, answer0 to answer3, label from 0", ("allenai/cosmos_qa",), _cosmos, "choice"),
    Format("winogrande", "sentence with _, option1, option2, answer 1 or 2", ("allenai/winogrande",), _winogrande, "choice"),
    Format("scienceqa", "question, list choices, number answer from 0, perhaps image and hint", ("derek-thomas/ScienceQA",), _scienceqa, "choice"),
)  # fmt: skip
