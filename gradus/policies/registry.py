"""The kinds of policies. The folder of a player's model determines the player's kind, so a recipe may have players of several kinds.

Only this module distinguishes kinds of policies. Other code uses the abilities of a policy: `can`, `reads`, `acts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.types import UserError, unknown
from gradus.types.errors import nearest
from gradus.types.players import Fresh

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Loading:
    """The settings with which a model is loaded."""

    dtype: torch.dtype
    device: str = "cpu"
    recompute: bool = False  # see `Setting.recompute`
    graphs: bool = False  # see `Setting.graphs`
    backward_chunks: int = 1  # see `Setting.backward_chunks`

    @property
    def wanted(self) -> list[str]:
        """Returns the names of the active settings that need a language model on the built-in decoder."""
        return [name for name, on in (("recompute", self.recompute), ("graphs", self.graphs), ("backward_chunks", self.backward_chunks > 1)) if on]


TEXT = frozenset({"text"})


@dataclass(frozen=True)
class Kind:
    """A kind of policy."""

    name: str  # the name that `Task.policy` uses
    about: str  # the kind in words, with an article
    task: str  # the default task of a recipe for this kind
    load: Callable[[str, Loading], Any]  # loads the policy in a folder; raises UserError if the folder does not contain one
    model_types: frozenset[str] = frozenset()  # values of `model_type` in config.json; empty: all other values
    built_in: Callable[[str, frozenset[str]], Path] | None = None  # gives the built-in model for a task and the kinds of its observations; None: no such model
    alone: frozenset[str] = frozenset()  # abilities that only policies of this kind may have
    also: frozenset[str] = frozenset()  # abilities that this kind and some other kinds have
    sized: bool = False  # whether the rule that computes the learning rate from the number of parameters applies


def _language_model(folder: str, how: Loading) -> Any:
    from gradus.policies.lm import LanguageModel

    found = LanguageModel.load(folder, dtype=how.dtype, device=how.device)
    if how.wanted and found.note is not None:
        raise UserError(f"setting.{how.wanted[0]} needs the built-in decoder, but {found.note}; leave this field out")
    return replace(found, recompute=how.backward_chunks if how.backward_chunks > 1 else int(how.recompute), graphs=how.graphs)


def _tiny_model(task: str, shows: frozenset[str]) -> Path:
    from gradus.policies.tiny import folder_for

    return folder_for(task, shows)


def _flow(folder: str, how: Loading) -> Any:
    from gradus.policies.flow import FlowModel

    _refuse(how, "a flow")
    return FlowModel.load(folder, dtype=how.dtype, device=how.device)


def _tiny_flow(task: str, shows: frozenset[str]) -> Path:
    from gradus.policies.flow import BUILT_IN

    return BUILT_IN


def _controller(folder: str, how: Loading) -> Any:
    from gradus.policies.controller import Controller

    _refuse(how, "a controller")
    return Controller.load(folder, dtype=how.dtype, device=how.device)


def _masked(folder: str, how: Loading) -> Any:
    from gradus.policies.masked import Masked

    _refuse(how, "a masked model")
    return Masked.load(folder, dtype=how.dtype, device=how.device)


def _tiny_masked(task: str, shows: frozenset[str]) -> Path:
    from gradus.policies.tiny import folder

    return folder("masked")


def _refuse(how: Loading, who: str) -> None:
    if how.wanted:
        raise UserError(f"setting.{how.wanted[0]} works only for language models in the built-in decoder; leave this field out for {who}")


READINGS = frozenset({"logprobs", "entropy", "hidden", "states", "logits", "attention", "text"})
"""The abilities of every language model that a `Want` or a rollout can need."""
PLAIN = frozenset({"fork", "pack", "lora", "pause", "slots", "rules", "served"})
"""Further abilities, which belong to some policies of a kind."""
LANGUAGE_MODEL = Kind("lm", "a language model", "arithmetic", _language_model, built_in=_tiny_model, also=READINGS, sized=True)
FLOW = Kind(
    "flow",
    "a flow generator",
    "flow_2d",
    _flow,
    frozenset({"gradus_flow"}),
    _tiny_flow,
    frozenset({"drawing", "velocity", "matching"}),
)
CONTROLLER = Kind(
    "controller",
    "a controller",
    "cartpole",
    _controller,
    frozenset({"gradus_controller"}),
    alone=frozenset({"drawn", "q", "q_of_all", "q_of_candidates", "number"}),
)
MASKED = Kind(
    "masked",
    "a masked language model",
    "sudoku4",
    _masked,
    frozenset({"gradus_masked"}),
    _tiny_masked,
    frozenset({"denoised", "unmasking"}),
    sized=True,
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (LANGUAGE_MODEL, FLOW, CONTROLLER, MASKED)}
"""Every kind by its name. Language models take the folders of all other model types."""


def of_folder(folder: str | Path, otherwise: str = LANGUAGE_MODEL.name) -> Kind:
    """Returns the kind of the model in a folder.

    If the folder's config.json is missing or broken, the result is `otherwise`, whose loader then raises the error.
    """
    try:
        stored = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        model_type = stored.get("model_type")
    except (OSError, ValueError, AttributeError):
        return named(otherwise)
    return next((kind for kind in KINDS.values() if model_type in kind.model_types), LANGUAGE_MODEL)


def of_recipe(model: Any, abilities: frozenset[str]) -> Kind:
    """Returns the kind of policy that a recipe trains. The kind depends on the model of the recipe's player and on the abilities that its parts need."""
    if isinstance(model, Fresh):
        return CONTROLLER
    if isinstance(model, str):
        return of_folder(model)
    return next((kind for kind in KINDS.values() if kind.alone & abilities), LANGUAGE_MODEL)


def offered_by(ability: str, can: frozenset[str] = frozenset()) -> str:
    """Returns the remedy if a policy with the abilities `can` lacks an ability: the kind of policy that offers it, and a task for this kind."""
    kind = next((kind for kind in KINDS.values() if ability in kind.alone | kind.also), None)
    if kind is not None:
        return f"{kind.about} offers it: use a task for such a policy, for example {kind.task}, or another recipe"
    if ability in PLAIN:
        return "use another model or recipe"
    return f"no policy offers it{nearest(ability, can)}; correct `opens` of the `Want`, or add the ability to `can` of your own policy"


def named(name: str) -> Kind:
    """Returns the kind with this name. Raises UserError with the nearest known names if the name is unknown."""
    if name not in KINDS:
        raise unknown("kind of policy", name, KINDS, "In Task.policy")
    return KINDS[name]


def folder_of(model: str | Path | None, name: str, task: str, shows: frozenset[str] = TEXT) -> str:
    """Returns the folder of a model. None and "tiny" mean the built-in model of kind `name` for the task.

    `shows`: the kinds of observations that the task shows. Raises UserError if no model of this kind is built in.
    """
    if model not in (None, "tiny"):
        return str(model)
    built_in = named(name).built_in
    if built_in is None:
        raise UserError(
            f"there is no built-in model for {named(name).about}, and no model folder is named; name a folder with --model, or set --players.policy.model Fresh"
        )
    return str(built_in(task, shows))


def load(model: str | Path | None, name: str, task: str, how: Loading, shows: frozenset[str] = TEXT) -> Any:
    """Loads the policy in a model folder. The folder determines the kind of the policy.

    None and "tiny" mean the built-in model of kind `name` for a task that shows these kinds of observations.
    """
    folder = folder_of(model, name, task, shows)
    return of_folder(folder, name).load(folder, how)
