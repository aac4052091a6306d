"""RLAE: a small controller learns by PPO to mix frozen language models, with new weights for each span of the answer.

    p(v) = sum_(m=1)^M w_m p_m(v | x, y_(<t)), quad w = softmax(u), quad u ~ pi(s)
    R = "reward of the whole answer after the last span, 0 before"
    loss = "mean over spans of the clipped loss of PPO with the advantages of GAE"

The state s is an encoding of the prompt and of the answer so far. Before each span of L = 5 tokens the controller draws one score $u_m$ per model. The
weights w stay the same within a span. All models read the same tokens, and the most likely token of the mixture is written. The models never learn.
PPO has the clip 0.2, gamma = 1 and lambda = 0.95. A critic of the same form reads the same states.

The players `one` and `two` are the models: `--players.one.model DIR --players.two.model DIR`. More models are further players, named in
`--environment.members one,two,three`. With w = (1, 0) the answer is the greedy answer of the first model.

Metrics: weight/MEMBER/CATEGORY (mean weight for the problems of a category), held_out/accuracy (drawn scores), held_out/greedy (mean scores).

Use if: several frozen models have different strengths, share a vocabulary, and the prompt or the text so far shows which model is better.
Avoid if: one model is best on all problems (use this model), or a model can be trained (see grpo).
Reference: Fu et al., RLAE: Reinforcement Learning-Assisted Ensemble for LLMs, arXiv:2506.00439. One public training script for the weights of spans was
read; its authors are not known.
Departures: L is ours; the script has 8 and 4. The encoder is ours: hashed characters and pairs of characters, then an MLP, in place of a pretrained text
encoder. The whole vocabulary is mixed, because it is common to all models; with the 10 best tokens of each model the distribution would be another one. The
variant with one actor per model and a central critic (RLAE-MAPPO) is left out. The script has no draws: its ratio is that of the weights themselves. The
first deviation of the scores is that of a new controller.
"""

from __future__ import annotations

from gradus.credit.gae import GAE
from gradus.environments.span_mixture import SpanMixture
from gradus.objectives.terms import ValueLoss
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.types import Frozen
from gradus.types.players import Fresh, Player

rlae = ppo.derive(
    "rlae",
    "A controller sets the weights of a mixture of frozen language models for each span, and learns by PPO from the verdict on the answer.",
    family="search",
    environment=SpanMixture(),
    rollout=Episodes(),
    reward=EnvironmentReturn(),
    credit=GAE(gamma=1.0, lam=0.95),
    players__policy=Player(Fresh()),
    players__critic=Player(Fresh(outputs="value"), objective=Frozen(value=ValueLoss(0.2)), learns_from="policy"),
    players__reference=None,
    players__one=Player(),
    players__two=Player(),
)

_TERMS = {"task": "arithmetic", "options": {"level": "2", "operations": "+*"}, "budget": "steps=80"}
_OURS = (
    "models, task and the size of the effect are ours. Two copies of the built-in model were fine-tuned on worked solutions, one of sums and one of products; the "
    "controller learns for 80 steps of 64 answers, and is tested with its mean scores"
)

claims = (
    Claim(
        says="On sums and products, accuracy with learned weights is at least 0.05 above that with uniform weights.",
        source=f"arXiv:2506.00439, comparison with fixed weights; {_OURS}",
        measure="held_out/accuracy:last", better_by=0.05, script="benchmarks.ensembled uniform", **_TERMS,
    ),
    Claim(
        says="On sums and products, accuracy with learned weights is at least 0.05 above that of the better one of the two models.",
        source=f"arXiv:2506.00439, comparison with single models; {_OURS}",
        measure="held_out/accuracy:last", better_by=0.05, script="benchmarks.ensembled single", **_TERMS,
    ),
    Claim(
        says="The mean weight of the right model on its own kind of problems exceeds 0.6 for both kinds.",
        source=f"arXiv:2506.00439, the weights follow the strengths of the models; {_OURS}. The figure: the smaller mean weight less 0.5",
        measure="weight of the right model", better_by=0.1, script="benchmarks.ensembled specialist", **_TERMS,
    ),
)  # fmt: skip
