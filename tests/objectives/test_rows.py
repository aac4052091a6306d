"""Next actions, sums over later actions, and stretches of written text, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.objectives.rows import next_rows, sums_from_here, written_stretches
from gradus.testing.methods import toy_group
from gradus.types import Context, prompt_context
from gradus.types.batch import make_batch


def test_the_last_action_of_a_context_has_no_next_state():
    assert next_rows(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0, 0, 2, 2])).tolist() == [2.0, 0.0, 4.0, 0.0]
    assert next_rows(torch.tensor([1.0]), torch.tensor([0])).tolist() == [0.0]
    with pytest.raises(ValueError, match="context"):
        next_rows(torch.zeros(2), torch.zeros(3))


def test_sums_go_to_the_end_of_the_trajectory():
    values, trajectory, position = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), torch.tensor([1, 0, 1, 0, 1]), torch.tensor([1, 0, 0, 1, 2])
    assert sums_from_here(values, trajectory, position).tolist() == [17.0, 10.0, 21.0, 8.0, 16.0]
    with pytest.raises(ValueError, match="position"):
        sums_from_here(values, trajectory, position[:2])


def answers(*lengths, tools=()):
    """A batch of answers with these numbers of tokens. `tools`: places in each answer before which a tool writes a token."""
    group = toy_group(*([0.0] * len(lengths)), lengths=list(lengths))
    made = []
    for t in group.trajectories:
        chosen = np.insert(np.ones(t.actions, bool), list(tools), False)
        context = Context(np.full(len(chosen), 2, np.int32), chosen, np.zeros(t.actions, np.float32), parent=(prompt_context([1]), 1))
        made.append(t.but(contexts=(context,), advantages=np.ones(t.actions)))
    return make_batch([group.but(trajectories=tuple(made))], dtype=torch.float64)


def test_stretches_by_hand():
    batch = answers(4, 4, tools=[0, 1, 1, 3])
    assert written_stretches(batch).tolist() == [0, 1, 1, 2, 3, 4, 4, 5]
    assert written_stretches(batch.slice([1])[0]).tolist() == [0, 1, 1, 2]
    assert written_stretches(answers(3, 1)).tolist() == [0, 0, 0, 1]
