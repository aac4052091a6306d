"""Training-Free GRPO: the loop of GRPO without gradients. A comparison of the answers in a group edits a small library of experiences for later prompts.

    E_0 = {}
    o_(i) ~ pi_0(E_k, x)
    winners = {i : r_i > mean(r)}, quad losers = {i : r_i < mean(r)}
    E_(k+1) = edits(E_k, winners, losers)

No weight changes: the policy stays $pi_0$. Only E, a list of short texts, is learned. For every batch the policy answers each question x under the
experiences $E_k$. Only groups with winners and losers are used. From these groups the extractor makes edits Add(text), Delete(i) and Modify(i, text).
All edits of a batch are applied together; texts without an edit stay. An experience has at most 32 words. In evaluation the prompts also contain E. A
batch without winners and losers leaves E unchanged. There is no KL term and no learning rate, because the model is frozen.

Two extractors exist. `Contrast`, the default, needs no large model: if all winners and no loser of a group have a feature, the experience "use ..."
is added. An experience, old or new, is removed if new answers to the questions of the batch earn more reward without this experience.
`--rollout.extractor Written` is the paper's extractor: a language model summarises every answer, explains why winners won, and writes the edits. The
language model is the policy, or another player with `Written(player="writer")`.

If no group has winners under a library, the library is never edited again, because there is nothing to compare.

Use if: the model follows its prompt but cannot be trained, its context is long enough for the library, and answers can be judged.
Avoid if: weights can be trained and there are many problems. In this case updates of the weights teach the model more than 16 short texts can teach
(see grpo).
Reference: Cai et al., Training-Free Group Relative Policy Optimization, arXiv:2510.08191. The paper's runs have groups of 5, temperature 0.7 and 3
epochs of 100 questions; here the run's setting determines these numbers.
Departures: The default extractor is `Contrast`. Edits are lines instead of JSON. The experiences are numbered lines in front of the first user
message. There are at most 16 experiences; the oldest is removed first (`--rollout.most none` removes the limit).
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.experience_extractors import Contrast
from gradus.rollouts.experience_library import Recalling

training_free_grpo = grpo.derive(
    "training_free_grpo",
    "No weight changes: comparisons of a group's answers edit a library of experiences in front of every prompt.",
    family="agents",
    rollout=Recalling(Contrast(), words=32),
    credit=None,
    objective=None,
    optimizer=None,
    players__reference=None,
)

claims = (
    Claim(
        says=(
            "Without a change of weights, the library of experiences raises the mean reward of the last of 10 steps by at least 0.05 over the "
            "first."
        ),
        source="arXiv:2510.08191, AIME24 80.0 to 82.7, AIME25 67.9 to 73.3; the size of the effect and the task are ours",
        measure="reward:gain",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=10",
    ),
)
