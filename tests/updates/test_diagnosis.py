"""Where numbers went bad: what is looked at, in which order, and what is no fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.objectives.terms import PolicyGradient
from gradus.testing.methods import BigramPolicy, toy_batch, toy_group, toy_trajectory
from gradus.types import Frozen, Key
from gradus.types.batch import Batch
from gradus.types.signals import LogProb
from gradus.updates.diagnosis import LOGPROBS, cut, of_batch, of_samples, of_update


def three() -> Batch:
    """Trajectories g/0, g/1, g/2 of 1, 3 and 2 actions."""
    return toy_batch(toy_group(1, 0, 0.5, lengths=[1, 3, 2]), advantages=[1, -1, 0.5])


def spoilt(made: Batch, name: str, row: int, value: float) -> Batch:
    rows = getattr(made, name).clone()
    rows[row] = value
    return replace(made, **{name: rows})


def test_a_sound_batch_has_no_fault_and_what_was_never_assigned_is_none() -> None:
    made = three()
    assert bool(made.returns.isnan().all())  # no credit rule gave any
    assert of_batch("policy", made) is None
    unknown = tuple(replace(c, logprobs=None) for c in made.contexts)
    assert of_batch("policy", replace(made, contexts=unknown, behaviour_logprobs=torch.full_like(made.weight, float("nan")))) is None


@pytest.mark.parametrize("name", ["advantages", "weight", "behaviour_logprobs"])
@pytest.mark.parametrize(("row", "identity", "action"), [(0, "g/0", 0), (3, "g/1", 2), (4, "g/2", 0)])
def test_the_first_bad_row_is_named(name: str, row: int, identity: str, action: int) -> None:
    found = of_batch("critic", spoilt(spoilt(three(), name, row, float("inf")), name, 5, float("nan")))
    assert found is not None
    assert (found.player, found.count, found.of) == ("critic", 2, 6)
    assert found.trajectory is not None
    assert (found.trajectory.id, found.action, found.token) == (identity, action, 2)
    assert found.values[action] == "inf"
    assert found.trajectories == ("g/0", "g/1", "g/2")
    assert found.rows["trajectory"].tolist() == [0, 1, 1, 1, 2, 2]
    assert f"first in trajectory {identity} at action {action} (token 2)" in str(found)


def test_what_comes_first_is_named_first() -> None:
    made = spoilt(spoilt(three(), "advantages", 0, float("nan")), "behaviour_logprobs", 5, float("nan"))
    found = of_batch("policy", made)
    assert found is not None
    assert found.tensor == LOGPROBS


def test_samples_whose_log_probabilities_are_not_finite() -> None:
    whole, broken = toy_trajectory([1, 2], logprobs=[-1, -2], name="a"), toy_trajectory([3, 4, 5], logprobs=[-1, float("-inf"), -3], name="b")
    assert of_samples([toy_group(1).but(trajectories=(whole,))]) is None
    found = of_samples([toy_group(1).but(trajectories=(whole, broken))])
    assert found is not None
    assert found.trajectory is broken
    assert (found.action, found.token, found.values, found.count, found.of) == (1, 4, ("-1", "-inf", "-3"), 1, 5)


def test_a_gradient_that_overflows_is_told_as_such() -> None:
    """Every number is finite, their sum of squares is not: 1e200 squared."""
    made = three()
    made = replace(made, weight=made.weight * 1e200)
    found = of_update("policy", BigramPolicy(Key(3)), made, {"policy": PolicyGradient()}, 100, Key())
    assert found.tensor == "norm of the gradient (the norm overflows, each number is finite)"
    assert str(found) == "policy's norm of the gradient (the norm overflows, each number is finite) is not finite"
    named = of_update("policy", BigramPolicy(Key(3)), made, {"policy": PolicyGradient()}, 100, Key(), ("gradient of a", "b", "c"))
    assert named.tensor == "gradient of a and 2 more (no sequence reproduces it)"
    assert {"advantages", "rows of LogProb", "slope of the loss by rows of LogProb"} <= named.rows.keys()


def test_old_rows_are_looked_at_too() -> None:
    made = three()
    rows = torch.zeros_like(made.weight)
    rows[4] = float("nan")
    found = of_update("policy", BigramPolicy(Key(3)), replace(made, old={LogProb(): rows}), {"policy": PolicyGradient()}, 100, Key())
    assert (found.tensor, found.action) == ("rows of LogProb at the start", 0)


def test_a_context_is_cut_after_an_action() -> None:
    whole = replace(
        toy_trajectory([5, 6, 7, 3], logprobs=[-1, -2, -3, -4]).contexts[0],
        chosen=np.array([True, False, True, True]),
        logprobs=np.array([-1, -2, -3], np.float32),
        versions=np.zeros(3, np.int32),
        rewards=((0, "a", 1.0), (2, "a", 2.0)),
        streams=Frozen(turn=np.arange(3)),
    )
    short = cut(whole, 2)
    assert short.tokens.tolist() == [5, 6, 7]
    assert (short.actions, short.logprobs.tolist(), short.rewards) == (2, [-1, -2], ((0, "a", 1.0),))  # type: ignore[union-attr]
    assert short.streams["turn"].tolist() == [0, 1]
    assert short.parent is whole.parent
