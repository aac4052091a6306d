"""A decoder that sees: a tower and a projector give the vectors at the placeholder tokens of a picture, the decoder does the rest."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gradus.policies.config import DecoderConfig
from gradus.policies.decoder import Decoder
from gradus.policies.tower import ProjectorConfig, Shuffled, Tower, TowerConfig, TwoLayers


@dataclass(frozen=True)
class SightedConfig:
    """The parts of a sighted decoder, and the token that stands where a picture's rows go."""

    text: DecoderConfig
    tower: TowerConfig
    projector: ProjectorConfig
    placeholder: int

    @property
    def rows(self) -> int:
        """Rows that one tile of a picture takes."""
        return self.tower.rows // max(1, self.projector.shuffle) ** 2


class Sighted(Decoder):
    """The decoder with `tower` and `projector`. Its own parameters keep their names."""

    def __init__(self, config: SightedConfig) -> None:
        super().__init__(config.text)
        self.sight = config
        self.tower = Tower(config.tower)
        projector = Shuffled if config.projector.shuffle else TwoLayers
        self.projector = projector(config.tower.hidden_size, config.text.hidden_size, config.projector)

    def features(self, pixels: Tensor) -> Tensor:
        """Prepared pixels [tiles, 3, S, S] to the rows [tiles, rows, hidden] that stand for them."""
        return self.projector(self.tower(pixels))
