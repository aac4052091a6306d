"""The built-in models: small decoders over single characters, pre-trained on worked solutions, and a flow generator. `make tiny` trains them."""

from __future__ import annotations

from pathlib import Path

from gradus.types import unknown

MADE_FOR: dict[str, dict[str, int]] = {
    "base": {"string_ops": 3, "arithmetic": 3, "countdown": 3, "knights_knaves": 2},
    "puzzles": {"sudoku": 2, "zebra": 1, "planning": 1, "sorting": 1},
    "formal": {"logic": 2, "sat": 2, "graphs": 2},
    "sighted": {"shapes": 3},
    "words": {"classification": 2, "multiple_choice": 2, "instructions": 2, "keychain": 2, "translation": 2},
    "passages": {
        "summaries": 2, "safety": 5, "stories": 2, "ranking": 2, "tables": 2, "forum": 2, "recommendation": 2, "facts": 1,
    },
    "programs": {"code_output": 2, "transfer": 2, "hidden_question": 2, "induction": 2, "forging": 5, "planted_subsequence": 1},
}  # fmt: skip
"""For each model, the tasks and levels that it sometimes solves. `base` also plays the small environments."""

SOLVES: dict[str, tuple[float, float]] = {
    "string_ops": (0.394, 0.934),
    "arithmetic": (0.312, 0.980),
    "countdown": (0.376, 0.996),
    "knights_knaves": (0.370, 0.910),
    "sudoku": (0.763, 1.000),
    "zebra": (0.336, 0.979),
    "planning": (0.191, 0.729),
    "sorting": (0.544, 0.979),
    "logic": (0.383, 0.875),
    "sat": (0.414, 1.000),
    "graphs": (0.326, 0.854),
    "classification": (0.508, 1.000),
    "multiple_choice": (0.194, 0.938),
    "instructions": (0.298, 0.792),
    "keychain": (0.311, 1.000),
    "translation": (0.245, 0.833),
    "shapes": (0.335, 0.958),
    "summaries": (0.379, 0.917),
    "safety": (0.690, 0.875),
    "stories": (0.044, 0.562),
    "ranking": (0.135, 0.792),
    "tables": (0.135, 0.625),
    "forum": (0.204, 1.000),
    "recommendation": (0.090, 0.604),
    "facts": (0.281, 0.708),
    "code_output": (0.431, 0.729),
    "transfer": (0.059, 0.292),
    "hidden_question": (0.305, 0.500),
    "induction": (0.923, 0.979),
    "forging": (0.177, 0.688),
    "planted_subsequence": (0.095, 0.792),
}
"""The pass@1 and pass@16 on held-out problems at the level of the model, before any training. `python -m benchmarks.tiny_table` measures them; see
benchmarks/RESULTS.md."""


def folder(name: str = "base") -> Path:
    """Returns the folder of a built-in model. Raises UserError with the nearest name if the name is unknown."""
    here = Path(__file__).parent
    known = sorted(p.parent.name for p in here.glob("*/config.json"))
    if name not in known:
        raise unknown("built-in model", name, known, "Make them with: make tiny")
    return here / name


def folder_for(task: str | None, shows: frozenset[str] = frozenset()) -> Path:
    """Returns the folder of the built-in model for a task. For a mixture of tasks, the result is the model of the first task.

    If no model was made for the task, or if the task is None, the model is `sighted` if pictures are shown, and `base` otherwise. `shows`: the kinds of
    observations that the task shows.
    """
    first = (task or "").partition(",")[0].partition(":")[0]
    return folder(next((model for model, tasks in MADE_FOR.items() if first in tasks), "sighted" if "image" in shows else "base"))


def beyond(task: str, level: float | None) -> str | None:
    """Returns a warning if the level is above the level of the task's built-in model; else None."""
    made = next((tasks[task] for tasks in MADE_FOR.values() if task in tasks), None)
    if made is None or level is None or level <= made:
        return None
    return (
        f"the built-in model was made for {task} at level {made}, of which it solves {SOLVES[task][0]:.0%} of the problems at the first attempt; "
        f"of level {level} it solves fewer, perhaps too few to learn from; set --task.level {made}"
    )
