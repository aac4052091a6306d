"""PCL: a value model predicts the success rate of every candidate problem, and only problems with a prediction near one half are sampled and used.

    B = "the" m "of" k m "candidates with the smallest" |V(x) - tau|
    A_i = r_i - mean(r)
    loss = -1/N sum_i 1/|o_i| sum_t log pi(o_(i,t)) A_i
    loss_V = 1/N sum_i (V(x_i) - mean(r))^2

A step draws k m problems, with k = 4. One forward pass of the value model over the prompts alone gives V(x), the predicted mean reward of the policy.
The m problems nearest to tau = 0.5 form the batch B; no answer is sampled for the other candidates. Each problem of B gets n answers. For rewards of
0 and 1 the mean square of the advantage is p (1 - p), which is largest at p = 1/2. The policy makes one update per batch, on its own samples, so
there is no ratio to clip. Then the value model is fitted to the mean rewards of the same groups. The value model is a second network with a linear
head, which starts from the policy. The head reads the state after the last token of the prompt. N counts all answers of the batch. Metrics:
predicted_rate, rank_correlation (Spearman's, of the predictions with the mean rewards), critic/loss/value.

Use if: problems are new or come again rarely, many are always or never solved, and sampling is expensive.
Avoid if: the same few problems come again, because their own answers predict better than a model (see mopps), or the memory is too small for a second
network of the policy's size.
Reference: Gao et al., Prompt Curriculum Learning for Efficient LLM Post-Training, arXiv:2510.01135. The paper has tau 0.5, four candidates per
problem, 512 problems with 16 answers, on-policy updates, advantages without a deviation, and a learning rate of 1e-6.
Departures: No code of the authors was found. Our own choices are the linear head without a sigmoid, the start from the policy and the policy's
learning rate for the value model. Rewards can be other numbers than 0 and 1, because V predicts the mean reward without a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.credit.prompt_returns import PromptReturns
from gradus.curricula.predicted import PredictedRates
from gradus.curricula.rates import Nearest
from gradus.objectives.aggregation import TokenMean, averaged
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.players import Copy, Head, Player
from gradus.types.signals import Signal, Value, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class RateError:
    """The mean of (V - R)^2 over the actions with a weight. R is the return, here the mean reward of the group (see `PromptReturns`)."""

    source: str = "policy"
    separable: ClassVar[bool] = True
    needs: ClassVar[tuple[Signal, ...]] = ()
    wants: ClassVar[tuple[Want, ...]] = (Value(),)
    asks: ClassVar[Mapping[str, str]] = Frozen({"returns": "a credit rule that gives returns, such as PromptReturns"})

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        errors = (outputs[Value()] - batch.returns).square()
        return averaged(TokenMean("weighted"), errors * batch.weight, batch, self.source), {"value_error": tally(errors.detach())}


pcl = grpo.derive(
    "pcl",
    "A value model reads the prompts and predicts success; only problems predicted near one half are sampled.",
    family="data",
    curriculum=PredictedRates(player="critic", choice=Nearest(0.5), factor=4),
    credit=GroupRelative(scale="none"),
    objective__policy__trust=Unclipped(),
    objective__kl=None,
    players__reference=None,
    players__critic=Player(
        Head(of=Copy("policy")),
        objective=Frozen(value=RateError()),
        credit=PromptReturns(),
        learns_from="policy",
    ),
)

claims = (
    same_weights(
        says="With one candidate per problem nothing is chosen, and the final weights are those of the same training in the usual order of problems.",
        source="arXiv:2510.01135, uniform sampling as the limit of few candidates",
        against="pcl --curriculum ShuffledEpochs",
        own={"curriculum.factor": "1"},
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the mean share of groups with a gradient over 20 steps is at least 1.2 times that of "
            "the usual order of problems, with as many answers."
        ),
        source="arXiv:2510.01135, effective ratio against uniform sampling; the ground and the size of the effect are ours",
        against="pcl --curriculum.factor 1",
        measure="informative:mean",
        at_least=1.2,
        ground="ladder",
        fields={"prompts": "8", "group": "8", "eval_every": "0"},
        budget="steps=20",
    ),
)
