"""A term that declares itself separable is cut into contexts and compared with the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.ratios import Probability, SequenceRatio, TokenRatio
from gradus.objectives.separability import coupled, refuse_coupled
from gradus.objectives.terms import EntropyBonus, Imitation, PolicyGradient
from gradus.objectives.trust import CappedWeight, Clip, DualClip, Shaped, Unclipped, surrogate
from gradus.papers.bases.grpo import grpo
from gradus.testing.methods import toy_batch, toy_group, train_toy
from gradus.types import Trajectory, UserError
from gradus.types.batch import Batch, make_batch
from gradus.types.signals import EntropyOf, LogProb


@dataclass(frozen=True)
class Coupled:
    """A trust region that looks at all actions, whatever it declares."""

    by: str = "mean of advantages"
    separable: bool = True

    def losses(self, log_ratio: torch.Tensor, advantages: torch.Tensor, batch: Batch) -> Any:
        if self.by == "mean of advantages":
            return surrogate(log_ratio, advantages - advantages.mean()), {}
        if self.by == "mean of ratios":
            return surrogate(log_ratio, advantages) / log_ratio.detach().exp().mean(), {}
        if self.by == "count":
            return surrogate(log_ratio, advantages) / len(log_ratio), {}
        return surrogate(log_ratio, advantages) / batch.counts["policy"].actions, {}  # of the whole, however it is cut


@dataclass(frozen=True)
class Sequence(SequenceRatio):
    separable: ClassVar[bool] = True


BATCH = toy_batch(toy_group(1.0, 0.0, key="a"), toy_group(0.0, 0.0, key="b"), advantages=[0.0] * 4)
ROWS = {LogProb(): -torch.linspace(0.1, 2.0, 8, dtype=torch.float64), EntropyOf(): torch.linspace(0.5, 1.0, 8, dtype=torch.float64)}


@pytest.mark.parametrize("by", ["mean of advantages", "mean of ratios", "count"])
def test_a_coupling_is_found_whatever_the_data(by: str) -> None:
    """The advantages of the batch are all zero, and no weight has moved: what is found hangs on neither."""
    assert coupled({"policy": PolicyGradient(trust=Coupled(by))}, ROWS, BATCH) == ["policy"]
    assert coupled({"policy": PolicyGradient(trust=Coupled(by, separable=False))}, ROWS, BATCH) == []


def test_the_counts_of_the_whole_are_no_coupling() -> None:
    assert coupled({"policy": PolicyGradient(trust=Coupled("counts"))}, ROWS, BATCH) == []


@pytest.mark.parametrize("trust", [Clip(), DualClip(), Unclipped(), CappedWeight(), Shaped()])
@pytest.mark.parametrize("ratio", [TokenRatio(), TokenRatio("behaviour"), Probability()])
@pytest.mark.parametrize("average", [SequenceMean(), TokenMean()])
def test_what_is_built_in_and_separable_is(trust: Any, ratio: Any, average: Any) -> None:
    term = PolicyGradient(ratio, trust, average=average)
    assert term.separable
    assert coupled({"policy": term, "entropy": EntropyBonus(), "imitation": Imitation(source="policy"), "right": ImitateRight()}, ROWS, BATCH) == []


def test_a_trajectory_of_two_contexts_shows_the_ratio_of_a_sequence() -> None:
    def long(t: Trajectory) -> Trajectory:
        return t.but(contexts=(*t.contexts, *t.contexts), advantages=np.zeros(4))

    whole = make_batch([g.but(trajectories=tuple(map(long, g.trajectories))) for g in (toy_group(1.0, 0.0),)], dtype=torch.float64)
    rows = {LogProb(): ROWS[LogProb()]}
    assert coupled({"policy": PolicyGradient(Sequence())}, rows, whole) == ["policy"]
    assert coupled({"policy": PolicyGradient(Sequence())}, ROWS, BATCH) == []  # where no trajectory is cut, it is right


def test_the_sentence_names_the_part_inside_the_term() -> None:
    with pytest.raises(UserError, match=r"^Coupled \(test_separability.py, line \d+\) declares separable = True, .* set separable = False"):
        refuse_coupled({"policy": PolicyGradient(trust=Coupled())}, ROWS, BATCH)


def test_a_run_looks_before_its_first_update_alone() -> None:
    with pytest.raises(UserError, match="declares separable = True"):
        train_toy(grpo.but(objective__policy__trust=Coupled(), objective__kl=None), steps=1)
    run = train_toy(grpo.but(objective__policy__trust=Coupled(separable=False), objective__kl=None), steps=1)
    assert run.players["policy"].updates == 1


def test_the_look_changes_no_bit_of_what_is_learned() -> None:
    mine = train_toy(grpo.but(objective__policy__trust=Coupled("counts"), objective__kl=None), steps=2, learning_rate=0.0)
    theirs = train_toy(grpo.but(objective__policy__trust=Unclipped(), objective__kl=None), steps=2, learning_rate=0.0)
    assert [row["reward"] for row in mine.metrics] == [row["reward"] for row in theirs.metrics]
