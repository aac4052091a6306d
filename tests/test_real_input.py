"""What people bring: checkpoints saved by transformers with BPE tokenizers, GSM8K's files, their own rows and reward functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GSM8K = Path(os.environ.get("GRADUS_DATA", Path(__file__).parents[2] / "shared" / "data")) / "gsm8k"
CHAT = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
ROWS = [
    ("Ann has 3 apples and buys 4 more. How many has she?", "She has 3+4=<<3+4=7>>7 apples.\n#### 7"),
    ("A box holds 12 eggs. How many do 5 boxes hold?", "5 boxes hold 5*12=<<5*12=60>>60 eggs.\n#### 60"),
    ("Tom ran 10 km on Monday and half as far on Tuesday. How far in all?", "Tuesday he ran 5 km.\nIn all 10+5=15.\n#### 15"),
    ("A shirt costs $1,250 less 10%. What is the price?", "10% is 125.\n1250-125=1125\n#### 1,125"),
] * 6


@pytest.fixture(scope="module", params=[pytest.param("qwen2", marks=pytest.mark.nightly), "llama"])
def model(request, tmp_path_factory) -> Path:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([t for row in ROWS for t in row], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", chat_template=CHAT)
    shape = {"vocab_size": len(fast), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"num_key_value_heads": 2, "max_position_embeddings": 512, "eos_token_id": fast.eos_token_id}
    torch.manual_seed(0)
    made = Qwen2ForCausalLM(Qwen2Config(**shape)) if request.param == "qwen2" else LlamaForCausalLM(LlamaConfig(**shape))
    folder = tmp_path_factory.mktemp(request.param)
    made.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture
def gradus(forked, tmp_path):
    """Runs a command in a process of its own, which must succeed."""

    def run(*words: object) -> None:
        assert forked.start([str(word) for word in words], tmp_path / "log").wait(300) == 0, (tmp_path / "log").read_text()

    return run


def small(*more: object) -> list[object]:
    return ["--steps", 2, "--prompts", 2, "--group", 2, "--max_tokens", 8, "--study.problems", 2, "--learning_rate", "1e-4", *more]


def test_gsm8k_with_a_saved_model_trains_evaluates_and_exports(model, gradus, tmp_path):
    files = [GSM8K / "train.jsonl", GSM8K / "test.jsonl"]
    if not files[0].exists():
        for file in (files := [tmp_path / "train.jsonl", tmp_path / "test.jsonl"]):
            file.write_text("".join(json.dumps({"question": f"{q} ({file.stem} {i})", "answer": a}) + "\n" for i, (q, a) in enumerate(ROWS)))
    run = tmp_path / "run"
    gradus("train", "grpo", "--task", "gsm8k", "--task.source.path", files[0], "--model", model, "--run", run, *small())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows] == [0, 1, 2]
    assert {"reward", "reward/verified", "accuracy", "length", "entropy", "kl", "clip_share", "tokens/rollout"} <= rows[0].keys()
    asked = ["eval", run, "--task", "gsm8k", "--task.held_out.path", files[1], "--problems", 3, "--pass-at", "1,2", "--json", "--max_tokens", 8]
    done = subprocess.run([sys.executable, "-m", "gradus", *map(str, asked)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["problems"] == 3
    gradus("export", run, tmp_path / "exported")
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(tmp_path / "exported")


def test_own_rows_with_an_own_reward_function(model, gradus, tmp_path):
    data, reward = tmp_path / "mine.jsonl", tmp_path / "reward.py"
    data.write_text("".join(json.dumps({"prompt": q, "answer": a[-2:], "colour": "red"}) + "\n" for q, a in dict(ROWS).items()))
    reward.write_text("def score(prompts, completions, completion_ids, colour, **kwargs):\n    return [float(len(i)) for i in completion_ids]\n")
    run = tmp_path / "run"
    gradus("train", "grpo", "--task", data, "--reward", f"{reward}:score", "--model", model, "--run", run, *small())
    first = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    assert first["reward"] == first["reward/score"] == pytest.approx(first["length"])  # the reward is the number of tokens
    gradus("resume", run, "--steps", 3)
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 3
