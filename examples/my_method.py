"""A new method in thirty lines: GRPO whose advantage is the sign of the reward's distance from the group's median.

Check it:    gradus check examples/my_method.py:my_method
Train it:    gradus train examples/my_method.py:my_method
Look at it:  gradus show examples/my_method.py:my_method
Compare:     gradus diff grpo examples/my_method.py:my_method
"""

from dataclasses import dataclass

import numpy as np

from gradus import load_recipe
from gradus.credit.groups import spread


@dataclass(frozen=True)
class AboveMedian:
    """A_i = sign(r_i - median of the group's rewards), times `size`."""

    size: float = 1.0
    needs = ()  # no input but the rewards

    def assign(self, groups, signals):
        return spread(groups, [self.size * np.sign(g.rewards - np.median(g.rewards)) for g in groups])


my_method = load_recipe("grpo").derive("my_method", "Only above or below the median counts.", credit=AboveMedian())
