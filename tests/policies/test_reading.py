from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from gradus.policies.reading import check_offered, read, remedy
from gradus.policies.registry import offered_by
from gradus.types import Context, Key, UserError
from gradus.types.signals import LogProb, Value, Viewed, Want


class Three:
    """Opens log-probabilities of three actions, counted when they are asked for."""

    contexts = (Context(np.array([5, 6, 7, 8], np.int32), np.array([False, True, True, True])),)

    def logprobs(self):
        return torch.tensor([-1.0, -2.0, -3.0], dtype=torch.bfloat16)


@dataclass(frozen=True)
class Short(Want):
    """One row too few."""

    opens: ClassVar[frozenset[str]] = frozenset({"logprobs"})

    def rows(self, opened, key):
        return opened.logprobs()[1:]


@dataclass(frozen=True)
class Drawn(Want):
    """Rows of the key."""

    def rows(self, opened, key):
        return torch.from_numpy(key.uniform(3))


def test_rows_are_float32_at_least_and_in_the_order_asked():
    found = read(Three(), (Drawn(), LogProb()), Key(3))
    assert list(found) == [Drawn(), LogProb()]
    assert found[LogProb()].dtype == torch.float32
    assert found[LogProb()].tolist() == [-1.0, -2.0, -3.0]
    assert found[Drawn()].dtype == torch.float64
    assert torch.equal(found[Drawn()], torch.from_numpy(Key(3).uniform(3)))


def test_a_want_gives_one_row_per_action():
    with pytest.raises(UserError, match=r"Short\.rows \(.*\) returned a tensor of shape \[2\] for 3 actions; it must return one row per action, \[3, \.\.\.\]"):
        read(Three(), (Short(),), Key())


def test_what_is_lacking_is_named_with_what_to_add():
    can = frozenset({"logprobs", "head:q"})
    check_offered((LogProb(), Short(), Value("q")), can, "the model")
    with pytest.raises(UserError, match='does not offer Value, which needs head:value; its heads are q; give the player a value head'):
        check_offered((Value(),), can, "the model")
    with pytest.raises(UserError, match="does not offer Viewed, which needs head:v"):
        check_offered((Viewed(Value("v"), None),), can, "the model")  # type: ignore[arg-type]
    assert remedy("head:v", can, "critic").endswith('a head of this name: players.critic.model=Head(of=Copy("policy"), outputs=("v",))')
    assert remedy("q_of_all", can) == "use a task whose actions are a Choice, such as cartpole, or another recipe"
    assert remedy("lora", can) == "use another policy or recipe"


def test_a_policy_with_an_ability_is_named():
    assert offered_by("velocity") == "a flow generator offers it: use a task for such a policy, for example flow_2d, or another recipe"
    assert offered_by("logits") == "a language model offers it: use a task for such a policy, for example arithmetic, or another recipe"
    assert offered_by("lora") == "use another model or recipe"
    assert offered_by("logprob", frozenset({"logprobs"})).startswith("no policy offers it (did you mean logprobs?); correct `opens` of the `Want`")
