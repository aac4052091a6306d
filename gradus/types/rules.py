"""Token rules. A rule computes the logits from which the next token is drawn. The inputs of the rule are the logits of one or several players. All these
players continue the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


class TokenRule(Protocol):
    """A rule for the next token. A rule is a frozen dataclass in `Request.how`.

    A rule may have `heads`, a mapping of players to heads over the vocabulary. For such a player, `rows` contains the row of the head in place of the logits.
    A rule may also have `bound(encode)`, which returns the rule with its texts as tokens; `encode(text)` gives a list of tokens.

    Rules with equal `alike` are drawn together, if they have this property: `joined(rules)` then returns a rule for as many sequences, one per rule. A rule
    may also have `prefixes(count)`, which returns a mapping of players to `count` arrays of tokens. Such a player reads these tokens in place of the prompt,
    and then the same new tokens as all other players.
    """

    @property
    def players(self) -> tuple[str, ...]:
        """The players whose logits the rule reads. The first player is the player of the request."""
        ...

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        """Returns the logits [B, V] of the next token. Temperature, top-k, top-p and min-p are applied later.

        `rows`: the logits [B, V] of every player. `so_far`: the new tokens of each sequence so far. Minus infinity excludes a token. A row of the result
        may depend only on the same row of `rows`, and on the tokens of the same sequence. Otherwise a draw would depend on the batch.
        """
        ...


def alike(rule: Any) -> Any:
    """Returns the value that rules have in common if they are drawn together: the rule itself, or its `alike`."""
    return getattr(rule, "alike", rule)


def is_rule(how: Any) -> bool:
    """Whether a `Request.how` is a token rule."""
    return how is not None and hasattr(how, "players") and hasattr(how, "logits")
