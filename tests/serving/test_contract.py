"""`lm-eval` over the address: its local-completions model gives the log-likelihoods and the answers of the engine itself."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from gradus.policies.engine import Job, generate
from gradus.policies.scoring import score
from gradus.types import Sampling
from tests.serving.conftest import Address

ROWS = [
    {"question": f"{a}+{b}=", "choices": [str(a + b), str(a + b + 1), str(b)], "answer": 0}
    for a, b in ((1, 2), (12, 30), (7, 5), (9, 40), (3, 3))
]
TASKS = {
    "sums_choice": {"output_type": "multiple_choice", "doc_to_target": "answer", "doc_to_choice": "choices"},
    "sums_free": {
        "output_type": "generate_until",
        "doc_to_target": "{{choices[answer]}}",
        "generation_kwargs": {"until": ["+"], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match"}],
    },
}


def write_tasks(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, fields in TASKS.items():
        files = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "rows.jsonl")}}, "test_split": "test"}
        (folder / f"{name}.yaml").write_text(
            json.dumps({"task": name, **files, "doc_to_text": "{{question}}", "target_delimiter": "", **fields})
        )


def test_lm_eval_sees_the_model_of_the_engine(
    of_bytes: Address, bytes_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    write_tasks(tmp_path)
    arguments = {
        "model": "bytes",
        "base_url": f"{of_bytes.url}/completions",
        "tokenizer_backend": "huggingface",
        "tokenizer": str(bytes_folder),
        "num_concurrent": 4,
        "batch_size": 2,
        "max_length": of_bytes.model.context_length,
        "max_retries": 1,
    }
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    found = lm_eval.simple_evaluate("local-completions", model_args=arguments, tasks=list(TASKS), task_manager=manager, bootstrap_iters=0)
    assert found is not None
    model = of_bytes.model
    for sample in found["samples"]["sums_choice"]:
        row = ROWS[sample["doc_id"]]
        context = len(model.opening(row["question"]).tokens)
        for choice, ((loglikelihood, greedy),) in zip(row["choices"], sample["resps"], strict=True):
            tokens = model.opening(row["question"] + choice).tokens
            expected = score(model.trunk, tokens, likely=1)
            assert math.isclose(float(loglikelihood), float(expected.logprobs[context - 1 :].sum()), abs_tol=1e-4)
            likeliest = [ids[0] for ids, _ in expected.likely[context - 1 :]]
            assert (str(greedy) == "True") == (likeliest == tokens[context:].tolist())
    for sample in found["samples"]["sums_free"]:
        job = Job(
            np.asarray(model.opening(ROWS[sample["doc_id"]]["question"]).tokens), Sampling(temperature=0, max_tokens=8, stops=("+", "</s>")), 0
        )
        (alone,) = generate(model.trunk, [job], end_tokens=model.end_tokens, decode_text=model.text, max_context=256)
        assert sample["resps"][0][0] == model.text(alone.tokens).partition("+")[0]
