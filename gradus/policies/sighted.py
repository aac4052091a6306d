"""A decoder with vision. A tower and a projector compute the vectors at a picture's placeholder tokens. The decoder itself does not change.

Every picture is encoded alone, so its vectors are the same, bit for bit, with any other pictures in the batch. Vectors without gradient are kept until a
weight of the tower or the projector changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.foreign_eyes import ForeignEyes
from gradus.policies.inputs import Inputs
from gradus.policies.pack import Packed, embedded
from gradus.policies.pictures import Preparation, stands_for
from gradus.policies.tower import ProjectorConfig, Shuffled, Tower, TowerConfig, TwoLayers
from gradus.types import Context, Seen, UserError

KEPT = 256 << 20  # largest size of the encoded pictures that are kept, in bytes


@dataclass(frozen=True)
class SightedConfig:
    """The configuration of a sighted decoder's parts, and the token that is a picture's placeholder."""

    text: DecoderConfig
    tower: TowerConfig
    projector: ProjectorConfig
    placeholder: int

    @property
    def rows(self) -> int:
        """Returns the number of rows for one tile of a picture."""
        return self.tower.rows // max(1, self.projector.shuffle) ** 2


class Encoded:
    """Stores encoded pictures by digest, for one state of the weights. Only the pictures that were used last are kept, up to `KEPT` bytes.

    A copy of a network starts with no encoded pictures.
    """

    def __init__(self) -> None:
        self.of: tuple[Any, ...] = ()
        self.rows: OrderedDict[str, Tensor] = OrderedDict()
        self.size = 0
        self.count = 0  # pictures that went through the tower, with or without gradient

    def __deepcopy__(self, memo: Any) -> Encoded:
        return Encoded()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Encoded, ()

    def clear(self) -> None:
        """Removes the rows of all pictures."""
        self.of, self.size = (), 0
        self.rows.clear()

    def get(self, digest: str, weights: tuple[Any, ...]) -> Tensor | None:
        """Returns the rows of a picture under these weights; None if these rows are not kept."""
        if weights != self.of:
            self.clear()
            self.of = weights
        if digest in self.rows:
            self.rows.move_to_end(digest)
        return self.rows.get(digest)

    def put(self, digest: str, rows: Tensor) -> None:
        """Keeps the rows of a picture. Removes the rows of the least recently used pictures until the kept rows are within the limit."""
        self.rows[digest] = rows
        self.size += rows.nbytes
        while self.size > KEPT and len(self.rows) > 1:
            self.size -= self.rows.popitem(last=False)[1].nbytes


class Sighted(Decoder):
    """The decoder with `tower` and `projector`. The decoder's own parameters keep their names."""

    def __init__(self, config: SightedConfig, prepare: Preparation) -> None:
        super().__init__(config.text)
        self.sight, self.prepare, self.encoded = config, prepare, Encoded()
        self.tower = Tower(config.tower)
        projector = Shuffled if config.projector.shuffle else TwoLayers
        self.projector = projector(config.tower.hidden_size, config.text.hidden_size, config.projector)

    def empty(self) -> Sighted:
        return Sighted(self.sight, self.prepare)

    def features(self, pixels: Tensor) -> Tensor:
        """Maps prepared pixels [tiles, 3, S, S] to their rows [tiles, rows, hidden]."""
        return self.projector(self.tower(pixels))

    def count(self, picture: np.ndarray) -> int:
        """Returns the number of placeholder tokens for a picture uint8 [H, W, 3]."""
        rows, columns = self.prepare.split(*picture.shape[:2])
        return (rows * columns + 1) * self.sight.rows

    @property
    def mark(self) -> int:
        """Returns the placeholder token."""
        return self.sight.placeholder

    def stands_for(self, picture: np.ndarray, mark: str) -> str:
        """Returns the text that represents a picture. `mark` is the text of the placeholder."""
        return stands_for(mark * self.sight.rows, *self.prepare.split(*picture.shape[:2]), framed=self.sight.projector.shuffle > 0)

    def inputs(self, contexts: Sequence[Context], wanted: Callable[[int, np.ndarray], bool] = lambda context, at: True) -> list[Inputs | None]:
        """Returns, for every context, the vectors that replace its placeholder tokens; None for a context without media.

        `wanted`: a function that tells whether a picture is needed. The arguments of the function are the number of the context and the positions of the
        picture's tokens. A
        picture that is not needed is left out. A
        picture that occurs several times is encoded once. Raises: UserError if media are not pictures, or if the numbers of placeholders and rows differ.
        """
        found: dict[str, Tensor] = {}
        return [self._inputs(context.sequence, context.shown, found, partial(wanted, i)) for i, context in enumerate(contexts)]

    def inputs_of(self, tokens: np.ndarray, shown: Sequence[Seen]) -> Inputs | None:
        """Does the same as `inputs`, for one sequence."""
        return self._inputs(tokens, shown, {}, lambda at: True)

    def _inputs(
        self, tokens: np.ndarray, shown: Sequence[Seen], found: dict[str, Tensor], wanted: Callable[[np.ndarray], bool]
    ) -> Inputs | None:
        pieces: list[tuple[int, np.ndarray, Tensor, str]] = []
        for seen in shown:
            if seen.kind != "image":
                raise UserError(f"the context shows {seen.kind} ({seen.name}), but this model reads only text and pictures; take another task or model")
            for picture, at, length, digest in zip(seen.rows, seen.at.tolist(), seen.length.tolist(), seen.digests, strict=True):
                where = at + np.flatnonzero(tokens[at : at + length] == self.sight.placeholder)
                if not wanted(where):
                    continue
                if digest not in found:
                    found[digest] = self._encode(digest, picture)
                if len(where) != len(found[digest]):
                    raise UserError(
                        f"a picture has {len(found[digest])} vectors, but the context has {len(where)} placeholder tokens for this picture at token {at}; "
                        "read a context only with the model for which it was made"
                    )
                pieces.append((at, where, found[digest], digest))
        if not pieces:
            return None
        pieces.sort(key=lambda piece: piece[0])
        identity = "\n".join(f"{at} {digest}" for at, _, _, digest in pieces).encode()
        return Inputs(np.concatenate([where for _, where, _, _ in pieces]), torch.cat([rows for _, _, rows, _ in pieces]), identity)

    def _encode(self, digest: str, picture: np.ndarray) -> Tensor:
        """Returns the rows [n, hidden] of one picture.

        If gradients are enabled and a weight of the tower or the projector is trained, the rows have gradient. Otherwise the rows have no gradient and are kept
        for later calls.
        """
        eyes = [*self.tower.parameters(), *self.projector.parameters()]
        if torch.is_grad_enabled() and any(p.requires_grad for p in eyes):
            return self._through(picture)
        weights = tuple((p.data_ptr(), p._version) for p in eyes)
        kept = self.encoded.get(digest, weights)
        if kept is None:
            with torch.inference_mode(False), torch.no_grad():
                kept = self._through(picture)
            self.encoded.put(digest, kept)
        return kept

    def _through(self, picture: np.ndarray) -> Tensor:
        self.encoded.count += 1
        tiles, _ = self.prepare.tiles(picture)
        return self.features(torch.from_numpy(tiles).to(self.device, self.dtype)).flatten(0, 1)


def embedded_with_pictures(trunk: Decoder, packed: Packed, contexts: Sequence[Context]) -> Tensor | None:
    """Returns the input vectors of all packed rows, [N, hidden]; None if the contexts have no media.

    Raises UserError if the sequence has media, but the model reads only text.
    """
    if not any(context.things for context in contexts):
        return None
    given = trunk.inputs(contexts) if isinstance(trunk, Sighted) else [pictures(trunk, c.sequence, c.shown) for c in contexts]
    return embedded(trunk, packed, given)


def pictures(trunk: object, tokens: np.ndarray, shown: Sequence[Seen]) -> Inputs | None:
    """Returns the vectors of the pictures in one sequence; None without media. Raises UserError for media that the model cannot read."""
    if isinstance(trunk, Sighted):
        return trunk.inputs_of(tokens, shown)
    if shown and not isinstance(trunk, ForeignEyes):
        raise UserError(
            f"the context shows {shown[0].kind} ({shown[0].name}), but this model reads only text; take a model that reads this kind of "
            "media, or a task in text"
        )
    return None
