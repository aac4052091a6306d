"""Files and folders that are not as they should be: each maker writes one at a path."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradus.policies.tiny import folder

PART = """from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Mine:
    width: float = 0.2
    separable: ClassVar[bool] = True

    def losses(self, log_ratio, advantages, batch):
        return log_ratio / (1 // 0), {}
"""
Make = Callable[[Path, Path], None]
"""Writes to the first path; the second is a home that holds a sound model (`model`) and a finished run (`run`)."""

ROWS = "".join(json.dumps({"prompt": f"say {i}", "answer": str(i)}) + "\n" for i in range(2))
BATCHED = "def score(completions, **kwargs):\n    "


def cut(path: Path) -> None:
    """Cut in half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def model(**changes: str | Callable[[Path], None] | None) -> Make:
    """The sound model with files (dots as __) replaced by text, changed in place, or left out."""
    return _copy("model", changes)


def run(**changes: str | Callable[[Path], None] | None) -> Make:
    """The finished run with files replaced, changed or left out."""
    return _copy("run", changes)


def sighted(**changes: str | Callable[[Path], None] | None) -> Make:
    """The built-in model that reads pictures with files replaced, changed or left out."""
    return _copy(str(folder("sighted")), changes)


def _copy(source: str, changes: Mapping[str, Any]) -> Make:
    def make(path: Path, home: Path) -> None:
        shutil.copytree(home / source, path, symlinks=True)
        for name, change in changes.items():
            file = path / name.replace("__", ".")
            if callable(change):
                change(file)
            elif change is None:
                shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
            else:
                file.write_text(change)

    make.__doc__ = "; ".join(f"{name.replace('__', '.')} {_told(change)}" for name, change in changes.items())
    return make


def _told(change: Any) -> str:
    """A change of a file in words, for the page of mistakes: the first words of what makes it say what it does."""
    if callable(change):
        said = (change.__doc__ or "").rstrip(".")
        return said[:1].lower() + said[1:]
    return "missing" if change is None else f"is {change!r}"


def fields(**values: Any) -> Callable[[Path], None]:
    """Fields of a JSON file set to other values."""

    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    change.__doc__ = "with " + ", ".join(f"{name} {value!r}" for name, value in values.items())
    return change


def recipe(**parts: Any) -> Callable[[Path], None]:
    """Parts of the recipe in a run's recipe.json set to other JSON."""

    def change(path: Path) -> None:
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({**stored, "recipe": {**stored["recipe"], **parts}}))

    change.__doc__ = "with another " + ", ".join(parts)
    return change


def without_a_tower(path: Path) -> None:
    """Without the tensors of the tower."""
    from safetensors.torch import load_file, save_file

    save_file({name: tensor for name, tensor in load_file(path).items() if "vision_tower" not in name}, path)


def pickled(path: Path, home: Path) -> None:
    """Weights in a pickle alone."""
    model(model__safetensors=None)(path, home)
    (path / "pytorch_model.bin").write_bytes(b"\x80\x04")


def weightless(path: Path) -> None:
    """With half of its weights."""
    cut(next(path.resolve().glob("model.safetensors")))


def not_a_number(path: Path) -> None:
    """With NaN among its weights."""
    from safetensors.torch import load_file, save_file

    weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    weights["model.norm.weight"][3] = float("nan")
    save_file(weights, path, metadata={"format": "pt"})


def half_parquet(path: Path, home: Path) -> None:
    """Cut in half."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"prompt": [f"say {i}" for i in range(99)]}), path)
    cut(path)


def task(draw: str, size: int | str = 4, verify: str = "lambda problem, completion: 1.0") -> str:
    """A file with a task whose source draws by the statement given."""
    return (
        "from gradus.types import Problem\nfrom gradus.types.parts import Task\n\n\nclass Source:\n"
        f"    size = {size}\n\n    def draw(self, indices, level, key):\n        {draw}\n\n\n"
        f"task = Task('mine', Source(), Source(), {verify})\n"
    )


def world(step: str = "return Turn('on')", start: str = "return Game()") -> str:
    """A file with a task of many turns whose environment starts and answers by the statements given."""
    return (
        "from gradus.types import Problem\nfrom gradus.types.parts import Task, Turn\n\n\nclass Source:\n    size = 4\n\n"
        "    def draw(self, indices, level, key):\n        return [Problem(f'p{i}', 'mine', text='go') for i in indices]\n\n\n"
        f"class Game:\n    first = Turn('go')\n\n    async def step(self, action):\n        {step}\n\n\n"
        f"class World:\n    def start(self, problem, key, world):\n        {start}\n\n\n"
        "task = Task('mine', Source(), Source(), environment=World())\n"
    )
