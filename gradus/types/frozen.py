"""`Frozen`, an immutable and hashable mapping in the order of insertion. `value_fields` gives the fields that decide whether two parts are equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any, TypeVar

V = TypeVar("V")


class Frozen(Mapping[str, V]):
    """An immutable mapping:

    `Frozen(policy=..., kl=...)` or `Frozen({"a": 1})`. `replace(kl=None)` removes the entry `kl`; any other value sets this entry.
    """

    __slots__ = ("_items",)
    _items: dict[str, V]

    def __init__(self, items: Mapping[str, V] | None = None, /, **more: V) -> None:
        object.__setattr__(self, "_items", {**(items or {}), **more})

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Frozen mapping cannot change; make a new mapping with replace()")

    def __repr__(self) -> str:
        return f"Frozen({', '.join(f'{k}={v!r}' for k, v in self._items.items())})"

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._items)))

    def __reduce__(self) -> Any:
        return (Frozen, (dict(self._items),))

    def replace(self, **changes: V | None) -> Frozen[V]:
        kept = {k: v for k, v in self._items.items() if k not in changes or changes[k] is not None}
        return Frozen({**kept, **{k: v for k, v in changes.items() if v is not None}})


def value_fields(part: Any) -> list[Field[Any]]:
    """The fields of a dataclass, or of its instance, that a comparison with == uses."""
    return [field for field in fields(part) if field.compare]
