"""The index of recipes and tasks: what `gradus papers` and `gradus tasks` print without importing any. Renewed by `make index`."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("index.json")


def read() -> dict[str, list[dict[str, Any]]]:
    """{"recipes": [...], "tasks": [...]}, each sorted by name; what other packages offer is added by name and place, without importing it."""
    index = json.loads(PATH.read_text(encoding="utf-8"))
    for kind, name in (("recipes", "key"), ("tasks", "name")):
        offered = importlib.metadata.entry_points(group=f"gradus.{kind}")
        index[kind] += [{name: entry.name, "about": f"offered by {entry.value}", "family": "other"} for entry in offered]
        index[kind].sort(key=lambda row: str(row[name]))
    return index


def build() -> dict[str, list[dict[str, Any]]]:
    """The index of what is in this package, by importing all of it."""
    from gradus import registry

    recipes = [registry.recipe(key) for key, place in registry.recipe_modules().items() if place.startswith("gradus.")]
    makers = {name: registry.task_maker(name) for name, place in registry.task_modules().items() if place.startswith("gradus.")}
    return {
        "recipes": [
            {"key": r.key, "base": r.base, "family": r.family, "about": r.about, "policy": r.policy, "requires": sorted(r.requires)}
            for r in sorted(recipes, key=lambda r: r.key)
        ],
        "tasks": [{"name": name, "about": summary(maker)} for name, maker in sorted(makers.items())],
    }


def summary(maker: Any) -> str:
    """What a task says of itself; where it cannot be made without options, the first line of its maker's docstring."""
    from gradus.types import UserError

    try:
        return str(maker().about)
    except (TypeError, UserError):
        return (maker.__doc__ or "").strip().partition("\n")[0]


if __name__ == "__main__":
    PATH.write_text(json.dumps(build(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {PATH}")
