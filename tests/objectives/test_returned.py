"""What the parts of an objective return, right and wrong, without a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from gradus.objectives.aggregation import SequenceMean, TokenMean, averaged
from gradus.objectives.flow_matching import Weighted, likened
from gradus.objectives.returned import check_loss, check_losses, check_rows, check_unchanged, versions
from gradus.objectives.scores import MeanLogProb, scored
from gradus.objectives.terms import Imitation, PolicyGradient, evaluate
from gradus.objectives.trust import Unclipped, surrogate
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import UserError
from gradus.types.signals import EntropyOf, LogProb
from gradus.types.tally import tally


@dataclass(frozen=True)
class Given:
    """A part of every kind, which returns what it is given."""

    value: Any = None
    separable: ClassVar[bool] = True
    against: ClassVar[str] = "old"
    source: ClassVar[str] = "policy"
    wants: ClassVar[tuple[Any, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Any, ...]] = ()

    def given(self, *arguments: Any) -> Any:
        return self.value(*arguments) if callable(self.value) else self.value

    log_ratio = losses = factors = coefficients = scores = logprob = loss = given


BATCH = toy_batch(toy_group(1.0, 0.0, lengths=[1, 2]), advantages=[1.0, -1.0])


def rows() -> torch.Tensor:
    return torch.tensor([-0.5, -1.0, -2.0], dtype=torch.float64, requires_grad=True)


def refused(call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        call(*arguments, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.zeros(3, 1), "returned a float32 tensor of shape [3, 1]; it must return a float tensor of shape [3], one number per action"),
        (torch.zeros(()), "a float32 tensor of shape []"),
        (torch.zeros(1), "a float32 tensor of shape [1]"),
        (torch.zeros(3, dtype=torch.int64), "an int64 tensor of shape [3]"),
        (np.zeros(3), "a float64 array of shape [3]"),
        ([0.0] * 3, "a list of 3"),
        (None, "returned None"),
    ],
)
def test_rows_of_another_shape_or_kind(value: Any, said: str) -> None:
    assert said in refused(check_rows, Given(), "factors", value, (3,), "action")
    choices = {"ratio": Given(value), "trust": Given((value, {})), "weight": Given(value), "average": Given(value)}
    for name, part in choices.items():
        assert said in refused(evaluate, {"policy": PolicyGradient(**{name: part})}, {LogProb(): rows()}, BATCH)
    assert said in refused(averaged, Given(value), rows(), BATCH, "policy")


def test_a_gradient_is_due_where_the_argument_has_one() -> None:
    check_rows(Given(), "losses", rows() * 2, (3,), "action", of=rows())
    check_rows(Given(), "losses", rows().detach(), (3,), "action", of=rows().detach())
    check_rows(Given(), "losses", rows().detach(), (3,), "action")
    assert "without gradient" in refused(check_rows, Given(), "losses", rows().detach(), (3,), "action", of=rows())
    with torch.no_grad():
        check_rows(Given(), "losses", rows() * 2, (3,), "action", of=rows())
    detached = Given(lambda log_ratio, advantages, _: (surrogate(log_ratio, advantages).detach(), {}))
    policy = PolicyGradient(trust=detached, average=TokenMean())
    assert "without gradient" in refused(evaluate, {"policy": policy}, {LogProb(): rows()}, BATCH)
    with torch.no_grad():  # as a line search asks for the value alone: -(1 - 1 - 1) / 3, the ratio 1
        assert float(evaluate({"policy": policy}, {LogProb(): rows()}, BATCH)[0]) == pytest.approx(1 / 3)


def test_a_wide_column_would_have_been_a_gradient_many_times_too_large() -> None:
    """What the check is for: [A, 1] times [A] is [A, A], whose sum counts every pair of actions."""
    leaf = rows()
    log_ratio = leaf - leaf.detach()
    coefficients = SequenceMean().coefficients(BATCH, "policy")
    (coefficients * (surrogate(log_ratio, BATCH.advantages)[:, None] * BATCH.weight)).sum().backward()
    assert leaf.grad is not None
    right = rows()
    averaged(SequenceMean(), surrogate(right - right.detach(), BATCH.advantages), BATCH, "policy").backward()
    assert right.grad is not None
    assert torch.allclose(leaf.grad, -BATCH.advantages * coefficients.sum())  # where it should be -A times its own coefficient
    assert not torch.allclose(leaf.grad, right.grad)


def test_losses_come_with_metrics() -> None:
    losses, metrics = check_losses(Given(), (rows() * 2, {"a": tally(rows())}), rows())
    assert losses.shape == (3,)
    assert list(metrics) == ["a"]
    for value, said in [
        (rows() * 2, "it must return (a float tensor of shape [3], a mapping of metrics)"),
        ((rows() * 2,), "a tuple of 1"),
        ((rows() * 2, None), "None as metrics"),
        ((rows() * 2, {"a": 0.5}), "a float (0.5) as metric 'a'"),
        ((rows() * 2, {1: tally(rows())}), "as metric 1"),
    ]:
        assert said in refused(check_losses, Given(), value, rows())


def test_a_term_gives_one_number() -> None:
    leaf = rows()
    check_loss(Given(), (leaf.sum(), {}), [leaf])
    check_loss(Given(), (torch.zeros(()), {}), [])  # it reads no row
    for value, said in [
        (leaf.sum(), "(one float tensor of shape [], a mapping of metrics)"),
        ((leaf, {}), "a float64 tensor of shape [3] as the loss"),
        ((leaf.sum()[None], {}), "shape [1] as the loss"),
        ((-3.5, {}), "a float (-3.5) as the loss"),
        ((leaf.detach().sum(), {}), "a loss without gradient"),
        ((leaf.sum(), [1]), "a list of 1 as metrics"),
    ]:
        assert said in refused(check_loss, Given(), value, [leaf])
        assert said in refused(evaluate, {"mine": Given(value)}, {LogProb(): leaf}, BATCH)


def test_a_term_sees_the_rows_that_it_wants_alone() -> None:
    seen = []
    term = Given(lambda outputs, _: seen.append(sorted(outputs, key=repr)) or (outputs[LogProb()].sum(), {}))
    evaluate({"mine": term}, {LogProb(): rows(), EntropyOf(): rows()}, BATCH)
    assert seen == [[LogProb()]]


def test_a_batch_is_not_changed_in_place() -> None:
    before = versions(BATCH)
    check_unchanged(Given(), BATCH, before)
    fresh = replace(BATCH, advantages=BATCH.advantages.clone(), signals={}, old={})

    def twice(log_ratio: torch.Tensor, advantages: torch.Tensor, _: Any) -> Any:
        advantages *= 2
        return surrogate(log_ratio, advantages), {}

    said = refused(evaluate, {"policy": PolicyGradient(trust=Given(twice))}, {LogProb(): rows()}, fresh)
    assert said.startswith("Given (test_returned.py, line ")  # the part inside the term
    assert "changed a tensor of the batch in place" in said
    evaluate({"policy": PolicyGradient(trust=Unclipped())}, {LogProb(): rows()}, fresh)


def test_scores_and_likenesses() -> None:
    assert scored(MeanLogProb(), rows(), BATCH).shape == (2,)
    assert "shape [2], one number per trajectory" in refused(scored, Given(rows()), rows(), BATCH)
    assert "without gradient" in refused(scored, Given(torch.zeros(2)), rows(), BATCH)
    error = torch.rand(3, 2, requires_grad=True)
    assert likened(Weighted(), error, torch.rand(3, 2)).shape == (3, 2)
    assert "shape [3, 2], one number per pair" in refused(likened, Given(error.sum(1)), error, torch.rand(3, 2))


def test_what_is_built_in_keeps_its_values() -> None:
    """The loss by hand: -mean over 3 actions of log pi = 3.5 / 3."""
    loss, _ = evaluate({"imitation": Imitation(source="policy")}, {LogProb(): rows()}, BATCH)
    assert float(loss) == pytest.approx(3.5 / 3)
