"""RAST: the change that RL made to the logits of a small model is added to the logits of a large model at decoding. The large model is never trained.

    l = l_B + lambda (l_(s_1) - l_(s_0))
    pi(a | s) = exp(l_a / tau) / (sum_b exp(l_b / tau))

B is a large base model, $s_0$ a small base model, and $s_1$ the small model after RL. All three read the same tokens and share one vocabulary. The
temperature tau and the nucleus are applied after the sum. Raw logits and log-probabilities give the same distribution, because they differ by a constant
per model. lambda is 1. With lambda = 0, or with equal small models, the samples equal the samples of B, token by token.

The players are `policy` (B), `small` ($s_0$) and `tuned` ($s_1$); no player learns. Name the two small models: `--players.small.model DIR
--players.tuned.model DIR`. By default both are copies of the policy. Two numbers report a transfer: the recovery rate (a - a_B) / (a_L - a_B), where
a is the accuracy of RAST, and $a_B$ and $a_L$ are the accuracies of the large model before and after its own RL; and the path coverage, the share of
the tokens in the answers of the large RL model that B itself would choose.

Use if: RL on the large model is too expensive, and a small model of the same vocabulary was trained by RL from a known start.
Avoid if: the large model can be trained (see grpo), or RL hardly improved the small model, because the difference is then noise.
Reference: Ouyang et al., RAST: Reasoning Activation in LLMs via Small-model Transfer, arXiv:2506.15710, equation 3 and the analysis of path coverage. The
released code was read (ozyyshr/RAST).
Departures: If the widths of the vocabularies differ, the released code cuts all logits to the shorter width; here the widths must agree. The nucleus of 0.95
belongs to the task (`--task.sampling.top_p 0.95`). The released code can add the differences of two pairs of models; here there is one pair. The cosine
between the changes of the small and of the large model is left out; recovery and coverage are functions, and no run reports them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.ruled import Ruled
from gradus.rollouts.token_rules import Delta
from gradus.types.players import Copy, Player


def recovery_rate(transferred: float, base: float, tuned: float) -> float | None:
    """Returns the share of the gain of RL on the large model that the transfer reaches; None if RL did not change the accuracy.

    >>> recovery_rate(0.6, 0.4, 0.8)
    0.5
    """
    return None if tuned == base else round((transferred - base) / (tuned - base), 12)


def path_coverage(written: Sequence[int], greedy: Sequence[int]) -> float:
    """Returns the share of written tokens that equal the base model's most likely token at the same place; 0 without tokens.

    >>> path_coverage([5, 6, 7, 8], [5, 6, 1, 8])
    0.75
    """
    return sum(a == b for a, b in zip(written, greedy, strict=True)) / len(written) if written else 0.0


rast = reinforce.derive(
    "rast",
    "The change that RL made to the logits of a small model is added to the logits of a frozen policy.",
    family="search",
    search=Ruled(Delta(plus="tuned", minus="small")),
    credit=None,
    objective=None,
    players__small=Player(Copy("policy")),
    players__tuned=Player(Copy("policy")),
)

_OURS = (
    "models, task and the size of the effect are ours. B is the built-in model of four layers; the small model has its first two layers and was fine-tuned on "
    "worked solutions for 40 steps; GRPO has 40 steps for either size. One seed was tried before, with other numbers of steps, to see that the small model learns"
)

claims = (
    Claim(
        says="On arithmetic with three digits, accuracy with the transferred difference is at least 0.05 above that of the large model alone.",
        source=f"arXiv:2506.15710, main results; {_OURS}",
        against="rast --search none",
        measure="held_out/accuracy:first", better_by=0.05, task="arithmetic", options={"level": "3"}, budget="steps=1",
        script="benchmarks.transferred accuracy",
    ),
    Claim(
        says="The transferred difference reaches at least half of the gain that GRPO on the large model itself brings.",
        source=f"arXiv:2506.15710, recovery rates; the bound of one half, {_OURS}. The figure: accuracy less the middle of B's and the large RL model's",
        measure="held_out/accuracy:first", better_by=0.0, task="arithmetic", options={"level": "3"}, budget="steps=1",
        script="benchmarks.transferred recovery",
    ),
    Claim(
        says="With the transferred difference, pass@16 is at least 0.97 times that of the large model after its own GRPO.",
        source=f"arXiv:2506.15710, results of pass@k; {_OURS}",
        against="grpo",
        measure="pass@16", at_least=0.97, task="arithmetic", options={"level": "3"}, budget="steps=1",
        script="benchmarks.transferred pass",
    ),
)  # fmt: skip
