"""The round trip of the chat template, on templates and tokenizers with one thing wrong each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradus.checks.template import answers_of, of_template
from gradus.policies.lm import LanguageModel
from gradus.policies.tiny import folder
from gradus.tasks.data.rows import Columns, problem_of
from gradus.training.plan import load_task
from gradus.types import Frozen, Key, Problem
from tests.small_model import save_small_model


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel.load(folder("base"))


def told(model: Any, *rows: dict[str, Any], **of_tokenizer: Any) -> list[tuple[str, str]]:
    """Verdicts and sentences for these rows, the model's tokenizer changed."""
    policy = replace(model, tokenizer=replace(model.tokenizer, **of_tokenizer)) if of_tokenizer else model
    problems = [problem_of(row, Columns("prompt", "answer"), id=f"d/{n}", task="d", where="here") for n, row in enumerate(rows)]
    return [(f.verdict, f"{f.says} | {' | '.join(f.details)}") for f in of_template(policy, load_task("arithmetic"), problems)]


PLAIN = {"prompt": "2 + 2 =", "answer": "4"}


def test_a_sound_template(model: LanguageModel) -> None:
    assert told(model, PLAIN) == [("ok", "the model's template: 1 prompt and 1 answer keep their text when they are encoded and decoded | ")]
    chat = {"prompt": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "2 + 2 ="}], "answer": "4"}
    assert told(model, chat)[0][0] == "ok"


def test_letters_that_the_tokenizer_does_not_know(model: LanguageModel) -> None:
    (prompt,) = told(model, PLAIN, {"prompt": "caf\u00e9 2 =", "answer": "4"})
    assert prompt == ("wrong", "1 of 2 prompts lose text when they are encoded into the tokens that the model reads | problem d/1: lost \u00e9")
    (answer,) = told(model, {"prompt": "2 =", "answer": "\u221a4"})
    assert answer[0] == "wrong"
    assert answer[1].endswith("the model cannot write them | problem d/0: lost \u221a")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% for m in messages %}{{ m.content }}<|end|>{% endfor %}", "writes nothing for add_generation_prompt"),
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}", "a finished turn differs from its prompt"),
        ("{% for m in messages %}{{ '>' if m.role == 'assistant' }}{{ m.content }};{% endfor %}{% if add_generation_prompt %}>{% endif %}",
         "does not close the assistant's turn"),
        ("{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"
         "{% if add_generation_prompt %}>{% endif %}", "a conversation with an answer cannot be written"),
    ],
)  # fmt: skip
def test_turns_that_begin_or_end_oddly(model: LanguageModel, template: str, says: str) -> None:
    found = told(model, PLAIN, template=template)
    assert [verdict for verdict, _ in found] == ["warning"]
    assert says in found[0][1]


def test_a_template_that_leaves_the_prompt_out(model: LanguageModel) -> None:
    assert told(model, PLAIN, template="{{ messages[0].role }}")[0][0] == "wrong"


def test_a_model_that_cannot_end(model: LanguageModel, tmp_path: Path) -> None:
    endless = replace(model, end_tokens=())
    assert "every answer runs to max_tokens" in told(endless, PLAIN)[0][1]
    other = replace(model, end_tokens=(5,))
    assert "is not among the tokens that end an answer (5)" in told(other, PLAIN)[0][1]
    small = LanguageModel.load(save_small_model(tmp_path))  # its template opens no turn
    assert [verdict for verdict, _ in told(small, PLAIN)] == ["warning", "warning"]


def test_a_prompt_as_long_as_the_context(model: LanguageModel) -> None:
    (found,) = told(model, {"prompt": "7" * 600, "answer": "1"})
    assert found[0] == "wrong"
    assert "1 of 1 prompt leave no token for the answer: the model's context has 512 tokens" in found[1]


def test_what_answers_a_problem() -> None:
    assert answers_of(Problem("a", "t", answer="4", meta=Frozen(solution="2+2=4"))) == ["2+2=4", "4"]
    assert answers_of(Problem("a", "t", answer=["4", "four"])) == ["4"]
    assert answers_of(Problem("a", "t", answer=7)) == ["7"]
    assert answers_of(Problem("a", "t")) == answers_of(Problem("a", "t", answer={"x": 1})) == answers_of(Problem("a", "t", answer=" ")) == []


def test_raw_text_and_a_system_message(model: LanguageModel) -> None:
    task = replace(load_task("arithmetic"), system="Be short \u00e9.")
    raw = Problem("r", "t", text="2+2=", answer="4")
    assert [f.verdict for f in of_template(model, task, [raw])] == ["ok"]  # raw text takes no system message
    (found,) = of_template(model, task, task.source.draw([0], None, Key()))
    assert found.details[0].endswith("lost \u00e9")


def test_a_tokenizer_that_ends_raw_text(model: LanguageModel) -> None:
    own = model.tokenizer

    def ended(text: str, framed: bool) -> list[int]:
        return [*own.encode(text, False), *([own.end] if framed else [])]

    policy = replace(model, tokenizer=replace(own, encode=ended))
    task = load_task("arithmetic")
    (finding,) = of_template(policy, task, [Problem("r", "t", text="2+2=", answer="4")])
    assert (finding.verdict, "puts an end token after raw text" in finding.says) == ("warning", True)
    assert [f.verdict for f in of_template(policy, task, task.source.draw([0], None, Key()))] == ["ok"]  # chat has no frame
    says = [f.says for f in of_template(model, task, [Problem("r", "t", text="2+2=", answer="4")])]
    assert says == ["raw text: 1 prompt and 1 answer keep their text when they are encoded and decoded"]
