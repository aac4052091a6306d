"""Training-Free GRPO: the loop of GRPO without gradients. Groups of answers are compared, and the comparison edits a small library of
experiences that stands in front of every later prompt; no weight moves.

E = [] at first. For every batch: sample each group conditioned on (E, question); only groups with winners and losers (rewards above and
below their mean) say anything; from these the extractor makes edits Add(text), Delete(i), Modify(i, text), what is not named is kept; all
are applied at once. An experience has at most 32 words. Evaluation prepends the same E. Groups with equal rewards ask no extractor, and a
batch of such groups leaves E as it is. There is no KL term and no learning rate: the frozen model is the anchor.

Two extractors. `Contrast`, the default, needs no large model: what all winners of a group wrote and no loser did becomes "use ...", and an
experience, old or new, goes where the batch, answered again without it, earns more. `--rollout.extractor Written` is the paper's: a language model
tells every answer, says why winners won, and writes the edits; it is the policy, or another player: `Written(player="writer")`.

Assumes a model that heeds what stands in its prompt, and a context that holds the library. Limits: an empty library adds nothing, so the
first batch is GRPO's own; a library under which every group fails is never edited again, for nothing is left to compare.

Reference: Cai et al., Training-Free Group Relative Policy Optimization, arXiv:2510.08191. Its runs have groups of 5, temperature 0.7 and 3
epochs of 100 questions, which here are the setting's. Ours: `Contrast`; the edits as lines instead of JSON; numbered lines in front of the
first user message; at most 16 experiences, the oldest going first (`--rollout.most none` lifts it).
"""

from gradus.papers.bases.grpo import grpo
from gradus.rollouts.experience_extractors import Contrast
from gradus.rollouts.experience_library import Recalling

training_free_grpo = grpo.derive(
    "training_free_grpo",
    "No weights move: groups of answers are compared, and the comparison edits a library of experiences in front of every prompt.",
    family="agents",
    rollout=Recalling(Contrast(), words=32, most=16),
    credit=None,
    objective=None,
    optimizer=None,
    players__reference=None,
)
