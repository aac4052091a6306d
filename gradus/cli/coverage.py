"""The coverage of the catalogue (`gradus papers --all`): systems with a recipe and their claims, and systems without a recipe. Imports no recipe."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradus.cli import show
from gradus.comparison.claims import STALE, Known, figure, of_recipe, standing
from gradus.recipe import index
from gradus.recipe.catalogue import BASES, System, nearest_recipes, systems
from gradus.runtime.tables import table


@dataclass(frozen=True)
class Line:
    """A system of the catalogue with the row of its recipe in the index, or a recipe that is not a system (a base or a variant)."""

    system: System | None
    recipe: Mapping[str, Any] | None

    @property
    def key(self) -> str:
        return str(self.recipe["key"]) if self.recipe is not None else self._only.key

    @property
    def family(self) -> str:
        """The family of the system, or, for a recipe that is not a system, the family of the recipe."""
        return self.system.family if self.system is not None else str((self.recipe or {})["family"])

    @property
    def about(self) -> str:
        """For a recipe: its changes, and the modality that it waits for. For a system without a recipe: its title, its year, and the missing feature."""
        if self.recipe is not None:
            modality = self.system.modality if self.system is not None else ""
            return f"{self.recipe['about']}{f' It waits for a policy that reads {modality}.' if modality else ''}"
        return f"{titled(self._only)}: waits for {self._only.waits}"

    @cached_property
    def claims(self) -> list[Known]:
        """The claims of the recipe with their stored results."""
        return of_recipe(self.recipe) if self.recipe is not None else []

    @property
    def _only(self) -> System:
        assert self.system is not None
        return self.system


def titled(system: System) -> str:
    """The title and the year of a system."""
    return f"{system.title} ({system.year})"


def papers(family: str | None = None, search: str | None = None, *, as_json: bool = False) -> str:
    """`gradus papers --all`: the lines of `covered` as text."""
    lines = covered(family, search)
    return json.dumps(plain(lines), indent=1, ensure_ascii=False) if as_json else told(lines)


def covered(family: str | None = None, search: str | None = None) -> list[Line]:
    """The systems of the catalogue and all further recipes, sorted by family; within a family, the systems that run come first.

    Args: `family`: one family (`bases` also contains the systems that are bases), or None for all. `search`: a text in the key, the title, the description,
    or the reason for waiting.
    Raises: UserError for an unknown family.
    """
    recipes = {row["key"]: row for row in index.read()["recipes"]}
    found = [Line(system, recipes.get(key)) for key, system in systems().items()]
    found += [Line(None, row) for key, row in recipes.items() if key not in systems()]
    families = {name for line in found for name in (line.family, (line.recipe or {}).get("family")) if name is not None}
    if family is not None and family not in families:
        from gradus.types.errors import unknown

        raise unknown("family", family, sorted(families))
    word = (search or "").lower()
    chosen = [line for line in found if family in (None, line.family, (line.recipe or {}).get("family")) and word in _text(line).lower()]
    return sorted(chosen, key=lambda line: (line.family, line.recipe is None, line.key))


def _text(line: Line) -> str:
    return " ".join([line.key, line.system.title if line.system is not None else "", (line.recipe or {}).get("base") or "", line.about])


def told(lines: Sequence[Line]) -> str:
    """A row for each system or recipe, and below the rows the numbers of systems, recipes and claims."""
    if not lines:
        return "no system and no recipe has this text in its name, title or description, or in the reason why it waits"
    head = ("key", "family", "state", "tests", "claims", "description")
    rows = [
        (line.key, line.family, "waits" if line.recipe is None else "runs", str((line.recipe or {}).get("tests", "")), _verdicts(line), line.about)
        for line in lines
    ]
    listed = table(rows, head, {2: lambda state: "good" if state == "runs" else "quiet"})
    return f"{listed}\n\n{counts(lines)}\n{claimed(lines)}"


def _verdicts(line: Line) -> str:
    """The verdicts of a recipe's claims, each with its number: "2 seen, 1 not seen"."""
    if len(line.claims) == 1:
        return verdict(line.claims[0])
    return ", ".join(f"{count} {name}" for name, count in Counter(map(verdict, line.claims)).items())


def verdict(of: Known) -> str:
    """The verdict of a claim in two words; `gradus claims` has the figure."""
    return "stale" if standing(of) == STALE else standing(of)


def claimed(lines: Sequence[Line]) -> str:
    """The number of claims per verdict."""
    found = Counter(verdict(of) for line in lines for of in line.claims)
    told = ", ".join(f"{found[name]} {name}" for name in ("seen", "not seen", "opposite", "not measured"))
    without = sum(line.recipe is not None and not line.claims for line in lines)
    stale = f", {found['stale']} stale" if found["stale"] else ""
    return f"{_several(sum(found.values()), 'claim')}: {told}{stale}; {_several(without, 'recipe')} without a claim"


def counts(lines: Sequence[Line]) -> str:
    """The numbers of systems that run, systems that wait, and further recipes."""
    known = [line for line in lines if line.system is not None]
    runs = sum(line.recipe is not None for line in known)
    others = [line.recipe for line in lines if line.system is None and line.recipe is not None]
    bases = sum(row["family"] == BASES for row in others)
    further = [_several(bases, "base recipe"), _several(len(others) - bases, "variant")] if others else []
    return f"{_several(len(known), 'system')} of the catalogue: {runs} run, {len(known) - runs} wait" + (f"; {' and '.join(further)} run" if further else "")


def _several(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def plain(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines as plain values."""
    return [
        {
            "key": line.key,
            "family": line.family,
            "state": "waits" if line.recipe is None else "runs",
            **({"title": line.system.title, "year": line.system.year} if line.system is not None else {}),
            **({"modality": line.system.modality} if line.system is not None and line.system.modality else {}),
            **({"waits": line.system.waits} if line.system is not None and line.recipe is None else {}),
            **({"about": line.recipe["about"], "tests": line.recipe.get("tests"), "claims": [_claim(of) for of in line.claims]} if line.recipe is not None else {}),
        }
        for line in lines
    ]


def _claim(of: Known) -> dict[str, str]:
    return {"says": of.claim.says, "verdict": verdict(of), "figure": figure(of)}


def shown(name: str, *, empty: bool = False) -> str:
    """`gradus show`: a recipe as text, a ground, or a system of the catalogue that waits. Raises UserError for an unknown name; the message lists similar
    names.
    """
    if name in systems() and systems()[name].waits:
        return waiting(systems()[name])
    from gradus.cli import grounds
    from gradus.recipe.registry import recipe_modules
    from gradus.types.errors import unknown

    if name in grounds.grounds():
        return grounds.show(name)
    if name in recipe_modules() or not name.isidentifier():
        return show.show(name, empty=empty)
    known = [*recipe_modules(), *systems(), *grounds.grounds()]
    raise unknown("recipe", name, known, "List them with: gradus papers --all (or gradus grounds)")


def waiting(system: System) -> str:
    """A system without a recipe as text: its paper, the missing feature, and the nearest recipes."""
    near = nearest_recipes(system, index.read()["recipes"])
    parts = [f"{system.key}: {titled(system)}", f"family: {system.family}", f"It does not run yet: it waits for {system.waits}."]
    parts += [f"code of the authors: {system.code}"] if system.code else []
    parts += [f"nearest recipes: {', '.join(near)}; see gradus show {near[0]}"] if near else []
    return "\n".join(parts)
