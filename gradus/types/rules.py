"""Token rules: the next token is drawn from a function of the logits of one or several players, decoded in lockstep on the same tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


class TokenRule(Protocol):
    """A frozen dataclass in `Request.how`.

    A rule may have `heads`, a mapping of players to heads over the vocabulary: `rows` then holds the head's row of that player. It may have
    `bound(encode)`, which returns the rule with its texts as tokens; `encode(text)` gives a list of tokens.
    """

    @property
    def players(self) -> tuple[str, ...]:
        """The players whose logits it reads; the first is the request's."""
        ...

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        """Logits [B, V] of the next token, before temperature and cut-offs, from rows [B, V] of every player and the new tokens so far.

        Minus infinity excludes a token. A row may depend on its own row and tokens only, so that no draw depends on the batch.
        """
        ...


def is_rule(how: Any) -> bool:
    """Whether a `Request.how` is a token rule."""
    return how is not None and hasattr(how, "players") and hasattr(how, "logits")
