"""Draws the samples of one player. The player draws the samples alone, or a token rule draws them token by token from several players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradus.types import Context, UserError, unknown
from gradus.types.rules import alike, is_rule


def drawn(players: Mapping[str, Any], player: str, asks: Sequence[Any]) -> list[Context]:
    """Draws one context for each request of `asks`, in order.

    Raises UserError if a rule names an unknown player, or if the first player of a rule is not `player`.
    """
    kinds: dict[Any, list[int]] = {}
    for i, ask in enumerate(asks):
        kinds.setdefault(alike(ask.request.how) if is_rule(ask.request.how) else None, []).append(i)
    if set(kinds) <= {None}:
        return players[player].policy.act(asks)
    from gradus.policies.lockstep import ROWS, act_by_rule

    found: dict[int, Context] = {}
    for kind, mine in kinds.items():
        if kind is None:
            found |= dict(zip(mine, players[player].policy.act([asks[i] for i in mine]), strict=True))
            continue
        rules = [asks[i].request.how for i in mine]
        same = all(rule == rules[0] for rule in rules)
        for first in range(0, len(mine), len(mine) if same else ROWS):
            some = mine[first:] if same else mine[first : first + ROWS]
            rule = rules[0] if same else rules[0].joined(rules[first : first + ROWS])
            found |= dict(zip(some, act_by_rule([asks[i] for i in some], rule, policies_of(players, player, rule)), strict=True))
    return [found[i] for i in range(len(asks))]


def policies_of(players: Mapping[str, Any], player: str, rule: Any) -> dict[str, Any]:
    """Returns the policies of the players that a rule names, in the rule's order. Raises the same errors as `drawn`."""
    for name in rule.players:
        if name not in players:
            raise unknown("player", name, players, f"{type(rule).__name__} reads the logits of this player; add the player to players")
    if rule.players[0] != player:
        raise UserError(
            f"a request for player {player} samples by {type(rule).__name__}, but the first player of this rule is {rule.players[0]}; set the "
            f"player of the request to {rule.players[0]}"
        )
    return {name: players[name].policy for name in rule.players}
