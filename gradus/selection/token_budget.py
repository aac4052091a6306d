"""A fixed number of tokens in every update, in place of a fixed number of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradus.types import Group, Key, Trajectory, UserError
from gradus.types.kept import group_of, kept_group
from gradus.types.ranges import check_ranges


def filled(lengths: Sequence[int], budget: int) -> tuple[int, int]:
    """Returns two numbers: the number of first answers that together have at most `budget` tokens, and the number of tokens that are left.

    >>> filled([5, 3, 4, 6], 12)
    (3, 0)
    """
    for count, length in enumerate(lengths):
        if length > budget:
            return count, budget
        budget -= length
    return len(lengths), budget


@dataclass(frozen=True)
class TokenBudget:
    """Takes the answers of the step in random order until they have `tokens` tokens. No update uses the other answers.

    The first answer that does not fit is at the border. With "cut", its first tokens fill the rest of the budget. With "wait", the next step takes this
    answer first. Answers that the update does not use still count in the comparison with their group. Only tokens that the policy chose count.
    """

    tokens: int = 409600  # the budget of a step
    border: Literal["cut", "wait"] = "cut"

    def __post_init__(self) -> None:
        check_ranges(self, tokens="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"waiting": []}

    def keep(self, groups: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[list[Group], list[Group], dict[str, Any]]:
        """Returns the groups with a taken answer, the other groups of the step, and the state with the answer that waits.

        Raises UserError if an answer that should wait is longer than the budget.
        """
        waiting = [group_of(unit) for unit in state["waiting"]]
        pool = [*waiting, *groups]
        places = [(g, i) for g, group in enumerate(pool) for i, t in enumerate(group.trajectories) if t.trained]
        first = [place for place in places if place[0] < len(waiting)]
        new = places[len(first) :]
        order = [*first, *(new[i] for i in key.fold("budget").permutation(len(new)))]
        lengths = [pool[g].trajectories[i].actions for g, i in order]
        if self.border == "wait":
            self._refuse(max(lengths, default=0))
        count, room = filled(lengths, self.tokens)
        taken = dict(zip(order[:count], lengths[:count], strict=True))
        border = order[count : count + 1]
        left = []
        if border and self.border == "wait":
            left = [kept_group(_only(pool[border[0][0]], {border[0][1]: lengths[count]}))]
        elif border and room:
            taken[border[0]] = room
        made = [_only(group, {i: n for (at, i), n in taken.items() if at == g}) for g, group in enumerate(pool)]
        has = [any(t.trained for t in group.trajectories) for group in made]
        dropped = [group for group, some in zip(groups, has[len(waiting) :], strict=True) if not some]
        return [group for group, some in zip(made, has, strict=True) if some], dropped, {"waiting": left}

    def _refuse(self, longest: int) -> None:
        if longest > self.tokens:
            raise UserError(
                f"an answer has {longest} tokens, but TokenBudget allows {self.tokens} tokens per step, so this answer would wait forever; "
                "raise --selection.tokens, lower --max_tokens, or set --selection.border cut"
            )


def _only(group: Group, lengths: dict[int, int]) -> Group:
    """Marks only some answers for the update: those whose number in the group is in `lengths`, and only their first tokens. The other answers stay for
    comparison.
    """
    rows = enumerate(group.trajectories)
    return group.but(trajectories=tuple(first_actions(t, lengths[i]) if i in lengths else t.but(trained=False) for i, t in rows))


def first_actions(trajectory: Trajectory, count: int) -> Trajectory:
    """Returns the trajectory up to its action number `count`. The reward and the text of the trajectory do not change."""
    if count >= trajectory.actions:
        return trajectory
    contexts = []
    for context in trajectory.contexts:
        contexts.append(context.first(min(count, context.actions)))
        count -= contexts[-1].actions
        if not count:
            break
    return trajectory.but(contexts=tuple(contexts))
