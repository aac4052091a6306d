"""What runs start from: a small model with problems and a reward."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.small_model import save_small_model


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, problems and a reward function; runs are made elsewhere."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("home")
    save_small_model(home / "model")
    (home / "problems.jsonl").write_text("".join(json.dumps({"prompt": f"say {i}", "answer": str(i)}) + "\n" for i in range(20)))
    (home / "good.py").write_text("def score(completions, **kwargs):\n    return [float(len(str(c)) % 3) for c in completions]\n")
    return home
