"""The return of every action, and the weight of the first one."""

from __future__ import annotations

from gradus.credit.prompt_returns import PromptReturns
from gradus.testing.methods import toy_group


def test_the_mean_reward_is_the_return_and_the_first_action_has_the_weight():
    for credited in PromptReturns().assign([toy_group(1, 0, 0, 0)], {})[0]:
        assert credited.returns.tolist() == [0.25, 0.25]
        assert credited.weights.tolist() == [1.0, 0.0]
        assert credited.advantages.tolist() == [0.0, 0.0]
