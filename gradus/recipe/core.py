"""A recipe: a method as a frozen record of parts. `but` replaces fields, `changes` compares two recipes, and `plus` combines several.

>>> from gradus.recipe.registry import recipe
>>> grpo = recipe("grpo")
>>> changes(grpo, grpo.but(credit__scale="none"))
{'credit.scale': 'none'}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any

from gradus.types import Frozen, UserError, unknown
from gradus.types.frozen import value_fields
from gradus.types.guards import Agreement, Guard, bytes_of
from gradus.types.players import Player
from gradus.types.ranges import check_ranges
from gradus.types.systems import System


@dataclass(frozen=True)
class Setting:
    """The size of a run, which is not part of the method. A profile (`tiny`, `small`, `paper`) sets all fields. The user can then change single fields."""

    learning_rate: float | None = None  # learning rate of every player without its own rate; None: a rule computes it from the model's size (`players.rates`)
    warmup: int = 5  # steps of linear warm-up
    steps: int = 200  # training steps
    prompts: int = 16  # problems per step
    group: int = 8  # samples per problem
    max_tokens: int | None = None  # new tokens per sample, for every task; None: the task's own limit, else default_tokens
    default_tokens: int = 64  # new tokens per sample for a task that sets no limit; a profile sets this field
    temperature: float | None = None  # None: the task's temperature
    precision: str = "float32"  # float32, bfloat16, float64
    micro_tokens: int = 4096  # tokens per micro-batch; changes memory, never the result
    graphs: bool = False  # on CUDA: captures sampling steps once per shape and replays them; not tested on a GPU yet
    recompute: bool = False  # the backward pass computes each layer's activations again: less memory, but more time (1.6 times, by one measurement)
    backward_chunks: int = 1  # number of parts into which the backward pass splits the rows of a micro-batch; it computes one part of a layer at a time
    eval_every: int = 25  # steps between evaluations; 0: evaluations only at the start and at the end
    save_every: int = 25  # steps between checkpoints
    keep: int = 2  # number of planned checkpoints that are kept, in addition to the best
    max_wait: float = 3600.0  # if no wait begins or ends for this number of seconds, the run ends with a report; 0: no limit
    max_failed: float = 0.5  # the run stops if a larger share of the trajectories of a step has a failed reward
    memory: str | None = None  # the most memory of the device that the run may use, such as 6GB; None: the free memory at the start
    guard: Guard = Guard()  # reaction to non-finite numbers
    agreement: Agreement = Agreement()  # check of the mismatch between rollout and update

    def __post_init__(self) -> None:
        if self.memory is not None:
            bytes_of(self.memory)
        check_ranges(self, learning_rate="[0, inf)", temperature="[0, inf)", max_failed="[0, 1]", max_wait="[0, inf)")
        check_ranges(self, **dict.fromkeys(("warmup", "steps", "eval_every", "save_every"), "[0, inf)"))
        check_ranges(self, **dict.fromkeys(("prompts", "group", "max_tokens", "default_tokens", "micro_tokens", "backward_chunks", "keep"), "[1, inf)"))


PROFILES: Mapping[str, Setting] = {
    "tiny": Setting(),
    "small": Setting(warmup=10, steps=500, prompts=16, group=8, default_tokens=512),
    "paper": Setting(
        learning_rate=1e-6, warmup=0, steps=1000, prompts=64, group=16, default_tokens=1024, precision="bfloat16", save_every=50, eval_every=50
    ),
}


@dataclass(frozen=True)
class Recipe:
    """The parts of a method."""

    key: str
    base: str | None = None
    about: str = ""  # the difference from the base, in one sentence
    family: str = "bases"
    players: Frozen[Player] = field(default_factory=lambda: Frozen(policy=Player()))
    curriculum: Any = None
    rollout: Any = None
    environment: Any = None
    reward: Any = None
    selection: Any = None
    credit: Any = None
    objective: Any = None
    optimizer: Any = None
    update: Any = None
    schedule: Any = None
    search: Any = None
    system: System | None = None  # None: every rollout runs in the step that uses it, and every process has the whole models
    study: Any = None
    setting: Setting = Setting()
    requires: frozenset[str] = frozenset()  # data that the problems must have: hints, solution, pairs, ...
    parent: Recipe | None = field(default=None, compare=False, repr=False)  # the recipe with the key `base`; not stored with a run

    def but(self, **changes_: Any) -> Recipe:
        """A copy of the recipe with other parts or fields, as in `objective__policy__ratio=SequenceRatio()`. None removes an entry of a mapping.

        Raises UserError for an unknown path; the message lists the nearest known names.
        """
        out = self
        for name, value in changes_.items():
            path = name.replace("__", ".")
            out = put(own(out, path), path, value)
        return out

    def derive(self, key: str, about: str, *, family: str = "bases", **changes_: Any) -> Recipe:
        """A new recipe whose base is this recipe."""
        return replace(self.but(**changes_), key=key, base=self.key, parent=self, about=about, family=family)

    def changes_to(self, other: Recipe) -> dict[str, Any]:
        """The smallest map from dotted paths to values that turns this recipe into `other`; see `changes`."""
        return changes(self, other)

    def plus(self, *others: Recipe) -> Recipe:
        """Applies to this recipe the changes that each other recipe makes to its base. Raises UserError if two recipes change a path differently."""
        seen: dict[str, tuple[str, Any]] = {}
        out = self
        for other in others:
            if other.base is None:
                raise UserError(f"{other.key} has no base, so it has no changes that can be combined; write {other.key} first and the other recipes after it")
            if other.parent is None:
                raise UserError(
                    f"{other.key} comes from the file of a run, so its base {other.base} is not known; load the recipe by its key or FILE.py:NAME"
                )
            for path, value in changes(other.parent, other).items():
                for earlier, (owner, set_) in seen.items():
                    overlap = earlier == path or earlier.startswith(path + ".") or path.startswith(earlier + ".")
                    if overlap and (earlier != path or set_ != value):
                        raise UserError(
                            f"{owner} and {other.key} both change {min(earlier, path, key=len)}: {owner} sets {earlier} to {set_!r}, "
                            f"{other.key} sets {path} to {value!r}; choose one value with the method `but`"
                        )
                seen[path] = (other.key, value)
                try:
                    out = put(out, path, value)
                except UserError as error:
                    raise UserError(
                        f"{other.key} changes {path} of {other.base}, but {self.key} does not have this path: {error}; set the field with the method `but`"
                    ) from None
        return replace(out, key="+".join([self.key, *(o.key for o in others)]), base=self.key, parent=self)


NAMES = ("key", "base", "parent", "about", "family")
"""The fields of a recipe that name and describe it."""


def changes(a: Any, b: Any) -> dict[str, Any]:
    """The smallest map from dotted paths to values that turns one recipe into another. Names and descriptions are not compared.

    Args: a: the recipe before; b: the recipe after. The value None means that the field is removed.

    >>> from gradus.recipe.registry import recipe
    >>> changes(recipe("reinforce"), recipe("reinforce").but(setting__steps=7))
    {'setting.steps': 7}
    """
    return dict(_changes(a, b, ""))


def _changes(a: Any, b: Any, path: str) -> list[tuple[str, Any]]:
    if type(a) is type(b) and is_dataclass(a):
        names = [f.name for f in value_fields(a) if path or f.name not in NAMES]
        return [c for n in names for c in _changes(getattr(a, n), getattr(b, n), f"{path}.{n}".lstrip("."))]
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = list(dict.fromkeys([*a, *b]))
        return [c for n in names for c in _changes(a.get(n), b.get(n), f"{path}.{n}".lstrip("."))]
    return [] if type(a) is type(b) and a == b else [(path, b)]


def get(root: Any, path: str) -> Any:
    """The value at a dotted path. Raises UserError for an unknown path; the message lists the nearest known fields."""
    where: list[str] = []
    while path:
        name, path = first_of(root, path)
        root = _child(root, name, ".".join(where))
        where.append(name)
    return root


def first_of(node: Any, path: str) -> tuple[str, str]:
    """Splits a dotted path into its first name and the rest. The name of a mapping's entry is not split, even if it contains dots."""
    if isinstance(node, Mapping):
        held = [name for name in node if f"{path}.".startswith(f"{name}.")]
        if held:
            name = max(held, key=len)
            return name, path[len(name) + 1 :]
    name, _, rest = path.partition(".")
    return name, rest


def parent_of(root: Any, path: str) -> tuple[str, str]:
    """Splits the path of a field into two: the path of the part that has this field, and the name of the field."""
    where: list[str] = []
    while True:
        name, rest = first_of(root, path)
        if not rest:
            return ".".join(where), name
        root = _child(root, name, ".".join(where))
        where.append(name)
        path = rest


def _child(node: Any, name: str, where: str) -> Any:
    known = list(node) if isinstance(node, Mapping) else [f.name for f in value_fields(node)] if is_dataclass(node) else []
    if name in known:
        return node[name] if isinstance(node, Mapping) else getattr(node, name)
    if node is None:
        raise UserError(f'"{where}" is empty in this recipe, so it has no field "{name}"; set a part at "{where}" first')
    if not known:
        shown = getattr(node, "__name__", None) or repr(node)
        raise UserError(f'"{where}" is {shown}, which has no fields; remove ".{name}"')
    if not where and name in getattr(getattr(node, "setting", None), "__dataclass_fields__", ()):
        raise UserError(f'"{name}" is a field of the setting: write setting__{name} in Python, --{name} on the command line')
    raise unknown("field", name, known, f'In "{where}" ({type(node).__name__})' if where else f"In the {type(node).__name__.lower()}")


def own(recipe: Recipe, path: str) -> Recipe:
    """Returns the recipe. If `path` changes the optimizer or credit rule of a player, and the player uses those of the recipe, the player first gets its own
    copy.
    """
    match path.split("."):
        case ["players", name, ("optimizer" | "credit") as part, _, *_] if getattr(recipe.players.get(name), part, ...) is None:
            return put(recipe, f"players.{name}.{part}", getattr(recipe, part))
    return recipe


def put(root: Any, path: str, value: Any, where: str = "") -> Any:
    """A copy of `root` with a new value at a dotted path. A mapping accepts new names, and None removes an entry. `where`: the path of `root`."""
    head, rest = first_of(root, path)
    known = not rest and isinstance(root, Mapping)  # a mapping accepts any name
    child = None if known else _child(root, head, where)
    if rest:
        value = put(child, rest, value, f"{where}.{head}".lstrip("."))
    return Frozen(root).replace(**{head: value}) if isinstance(root, Mapping) else replace(root, **{head: value})


def specs_of(recipe: Recipe) -> dict[str, Player]:
    """Every player with the parts that build and update it: name -> `Player`.

    The first player is `policy`, with the recipe's objective. If `policy` lacks its own credit rule or optimizer, it uses the recipe's credit rule or
    optimizer.
    """
    own = recipe.players.get("policy", Player())
    policy = replace(own, objective=recipe.objective, credit=own.credit or recipe.credit, optimizer=own.optimizer or recipe.optimizer)
    others = {name: spec for name, spec in recipe.players.items() if name != "policy"}
    return {"policy": policy} | {name: replace(s, optimizer=s.optimizer or recipe.optimizer) for name, s in others.items()}


def describe(recipe: Recipe) -> list[tuple[str, Any]]:
    """Every field as (dotted path, value), for `gradus show`. For a part, the value is the name of its class."""
    rows: list[tuple[str, Any]] = []

    def walk(node: Any, path: str) -> None:
        if is_dataclass(node) and not isinstance(node, type):
            if path:
                rows.append((path, type(node).__name__))
            for f in value_fields(node):
                if path or f.name not in NAMES:
                    walk(getattr(node, f.name), f"{path}.{f.name}".lstrip("."))
        elif isinstance(node, Mapping):
            for name, value in node.items():
                walk(value, f"{path}.{name}")
        else:
            rows.append((path, node))

    walk(recipe, "")
    return rows
