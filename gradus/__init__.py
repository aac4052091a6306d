"""Gradus trains language models and their relatives by reinforcement learning, one step at a time.

>>> import gradus
>>> grpo = gradus.recipe("grpo")
>>> mine = grpo.but(objective__policy__trust__high=0.28)
>>> gradus.changes(grpo, mine)
{'objective.policy.trust.high': 0.28}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradus.api import export, load_task, resume, train
    from gradus.examination import evaluate
    from gradus.recipe import Recipe, Setting, changes
    from gradus.registry import recipe

__version__ = "0.1.0"
__all__ = ["Recipe", "Setting", "changes", "evaluate", "export", "load_task", "recipe", "resume", "train"]

_HOMES = {
    "train": "gradus.api",
    "resume": "gradus.api",
    "export": "gradus.api",
    "evaluate": "gradus.examination",
    "load_task": "gradus.api",
    "Recipe": "gradus.recipe",
    "Setting": "gradus.recipe",
    "changes": "gradus.recipe",
    "recipe": "gradus.registry",
}


def __getattr__(name: str) -> Any:
    """Imports on first use, so that `import gradus` and the command line's help stay quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gradus' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
