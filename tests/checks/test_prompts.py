"""What a run says of its prompts: their form, the option for the other form, and the first one with its special tokens."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradus.checks.prompts import LONGEST, of_prompts, shown, told
from gradus.cli.main import main
from gradus.policies.lm import LanguageModel
from gradus.policies.tiny import folder
from gradus.training.plan import load_task
from gradus.types import Key, Problem
from tests.small_model import save_small_model

DOGS = "".join(json.dumps({"prompt": f"A dog named {name}"}) + "\n" for name in ("Max", "Bo"))
CHATS = "".join(json.dumps({"prompt": [{"role": "user", "content": f"Say {n}"}]}) + "\n" for n in range(2))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer puts <pad> before raw text, with a chat template and without one; files of prompts, each with another one held out."""
    from tokenizers import Tokenizer, processors

    home = tmp_path_factory.mktemp("prompts")
    save_small_model(home / "chat")
    path = str(home / "chat" / "tokenizer.json")
    raw = Tokenizer.from_file(path)
    raw.post_processor = processors.TemplateProcessing(single="<pad> $A", special_tokens=[("<pad>", 0)])
    raw.save(path)
    shutil.copytree(home / "chat", home / "base")
    (home / "base" / "chat_template.jinja").unlink()
    for name, text in (("dogs", DOGS), ("more", DOGS.replace("dog", "cat")), ("chats", CHATS), ("talks", CHATS.replace("Say", "Tell"))):
        (home / f"{name}.jsonl").write_text(text)
    return home


def found(home: Path, model: str, spec: str, **options: str) -> Any:
    task = load_task(spec.format(home=home), options)
    policy = LanguageModel.load(folder() if model == "tiny" else home / model)
    return next(of_prompts(policy, task, [] if task.environment else task.source.draw([0], task.level, Key())))


@pytest.mark.parametrize(
    ("model", "spec", "options", "verdict", "line"),
    [
        ("base", "{home}/dogs.jsonl", {}, "ok",
         'prompts: raw text (--task.prompt chat makes each prompt a user message); the first: "<pad>A dog named Max"'),
        ("base", "{home}/dogs.jsonl", {"prompt": "chat"}, "ok",
         "prompts: text as a user message in the default chat template, because the model has none (--task.prompt raw gives the text alone); "
         'the first: "user:\\nA dog named Max\\nassistant:\\n"'),
        ("chat", "{home}/dogs.jsonl", {}, "note",
         "prompts: raw text, without the model's chat template (--task.prompt chat puts each prompt into the template); "
         'the first: "<pad>A dog named Max"'),
        ("chat", "{home}/dogs.jsonl", {"system": "Go on."}, "ok",
         "prompts: text as a user message in the model's chat template; the first: \"Go on.>A dog named Max>\""),
        ("tiny", "{home}/dogs.jsonl", {}, "note",
         "prompts: raw text, without the model's chat template (--task.prompt chat puts each prompt into the template, the only form that the "
         'built-in model knows); the first: "A dog named Max"'),
        ("chat", "{home}/chats.jsonl", {}, "ok", "prompts: chat messages in the model's chat template; the first: \"Say 0>\""),
        ("tiny", "arithmetic", {"level": "1"}, "ok",
         "prompts: chat messages in the model's chat template; the first: \"<|user|>"),
        ("tiny", "frozen_lake", {}, "ok", "prompts: a conversation with the environment, in the model's chat template"),
    ],
)  # fmt: skip
def test_the_line_of_a_run(home: Path, model: str, spec: str, options: dict[str, str], verdict: str, line: str) -> None:
    held_out = {} if "jsonl" not in spec else {"held_out": f"{home}/{'more' if 'dogs' in spec else 'talks'}.jsonl"}
    finding = found(home, model, spec, **options, **held_out)
    assert finding.verdict == verdict
    assert told(finding) == line if spec != "arithmetic" else told(finding).startswith(line)


def test_a_mixture_has_several_forms(home: Path) -> None:
    task = load_task(f"{home}/dogs.jsonl:1,arithmetic:1")
    (finding,) = of_prompts(LanguageModel.load(home / "chat"), task, task.source.draw(range(2), None, Key()))
    assert {"raw text, without the model's chat template", "chat messages in the model's chat template"} == set(finding.says.split("; "))
    assert finding.remedy.startswith("--task.prompt chat puts each prompt")


def test_raw_text_of_a_task_in_python_has_no_option(home: Path) -> None:
    model = LanguageModel.load(home / "base")
    (finding,) = of_prompts(model, load_task("arithmetic"), [Problem("a", "t", text="2+2=")])
    assert (finding.says, finding.remedy) == ("raw text", "")


def test_no_tokenizer_no_line(home: Path) -> None:
    model = replace(LanguageModel.load(home / "base"), tokenizer=None)
    assert list(of_prompts(model, load_task("arithmetic"), [Problem("a", "t", text="2+2=")])) == []


def test_a_prompt_is_shown_on_one_line() -> None:
    assert shown('a\n\tb \\frac "c" \x1b[2J\u202e é') == 'a\\n\\tb \\\\frac "c" \\x1b[2J\\u202e é'
    text = "".join(chr(ord("a") + i % 26) for i in range(LONGEST + 1234))
    assert shown(text[:LONGEST]) == text[:LONGEST]
    assert shown(text) == f"{text[: LONGEST // 2]} [1,234 characters left out] {text[-LONGEST // 2 :]}"


def test_train_and_check_say_it(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.py").write_text("def score(completions, **columns):\n    return [0.5 for _ in completions]\n")
    words = ["--task", f"{home}/dogs.jsonl", "--task.held_out", f"{home}/more.jsonl", "--reward", "r.py:score", "--model", f"{home}/base"]
    short = ["--prompts", "2", "--group", "2", "--max_tokens", "4", "--study", "none"]
    assert main(["train", "grpo", *words, *short, "--steps", "1", "--run", "run"]) == 0
    line = 'prompts: raw text (--task.prompt chat makes each prompt a user message); the first: "<pad>A dog named Max"\n'
    assert capsys.readouterr().out.count(line) == 1
    assert main(["resume", "run", "--steps", "2"]) == 0
    assert "prompts: raw" not in capsys.readouterr().out  # said once, at the start
    main(["check", *words, *short, "--samples", "0", "--json"])
    rows = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["check"] == "prompts"]
    (row,) = rows
    assert (row["says"], row["details"]) == ("raw text", ['the first: "<pad>A dog named Max"'])
