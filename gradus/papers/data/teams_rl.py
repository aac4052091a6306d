"""TeaMs-RL: a small policy learns by TRPO to choose the next operation that an instructor applies to an instruction, so that instructions become diverse.

    r_t = 1 if the rewrite adds something, else 0
    A_t = sum_(k >= 0) (gamma lambda)^k (r_(t+k) + gamma V_(t+k+1) - V_(t+k))
    maximise mean of rho_t A_t subject to mean of KL(pi_old, pi) <= 0.01
    loss_V = mean of 1/2 (V_t - hat R_t)^2, quad hat R_t = A_t + V_t

The operations are: a new prompt (breadth), one more constraint, a deeper constraint, a concrete example, more steps of reasoning, a more complicated
input. The policy sees the last operation. An instructor rewrites the instruction by the operation, and a reviewer compares old and new. An episode
has 4 operations. The ratio rho compares pi with the policy $pi_old$ that acted. Then the trained policy's operations rewrite topics into instructions, an
expert answers these, and `data_set` makes rows for supervised fine-tuning from the pairs. `data_set` leaves out repeated instructions and the rows
that fail (see `fails`).

Use if: instructions for fine-tuning come from rewrites by a language model, calls of this model are costly, and many rewrites do not add diversity.
Avoid if: instructions exist already (see limr to choose among them), or the operations always add something.
Reference: Gu et al., TeaMs-RL: Teaching LLMs to Generate Better Instruction Datasets via Reinforcement Learning, arXiv:2403.08694: operations, reward by
a reviewer, TRPO. The numbers of `GAE` and `TrustRegion` are as in the released code (SafeRL-Lab/TeaMs-RL).
Departures: Instructor and reviewer are a program that edits a list of constraints. The program also writes the answers, and none of its rows fails.
The policy has one probability per operation; the policy of the released code is a Gaussian over six numbers, and the largest number chooses the
operation (0.3 is added to the first number). The code accepts a step only if it reaches a tenth of the predicted gain; here any gain within the bound
counts. The value is fitted by four epochs of Adam; the code fits it by L-BFGS with weight decay 0.001. The stop words, the template words and the
sign of a refusal are our choices. The fine-tuning on the rows and the test of privacy are left out. In the task `rewriting` the reward is not
diversity: a policy that alternates constrain and breadth earns every reward. After 25 steps, final instructions have 0.58 to 0.86 kinds of
constraints (three seeds), and instructions by random operations have 1.0. The paper's result on diversity is not shown here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gradus.credit.gae import GAE
from gradus.objectives.terms import ValueLoss
from gradus.papers.bases.trpo import trpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.types import Frozen
from gradus.types.players import Fresh, Player
from gradus.types.records import Group
from gradus.updates.trust_region import TrustRegion

TEMPLATE = ("given prompt", "rewritten prompt", "created prompt")
REFUSAL_WORDS = 80  # a refusal has fewer words
STOP_WORDS = frozenset(
    ["a", "an", "and", "are", "as", "at", "but", "by", "for", "in", "is", "it", "of", "on", "or", "that", "the", "this", "to", "with"]
)


def operations(groups: Iterable[Group]) -> list[tuple[int, ...]]:
    """Returns the operations of every episode, as numbers, in order."""
    return [tuple(int(n) for c in t.contexts for n in c.tokens[c.chosen]) for g in groups for t in g.trajectories]


def diverse(instructions: Sequence[str]) -> list[str]:
    """Returns the instructions without repetitions, in order. Additional blanks, and capitals, make no difference."""
    found: dict[str, str] = {}
    for text in instructions:
        found.setdefault(" ".join(text.casefold().split()), text)
    return list(found.values())


def fails(instruction: str, answer: str) -> bool:
    """Returns whether a row is left out: template words in the instruction, a refusal ("sorry" and fewer than 80 words), or only stop words as the answer."""
    words = re.findall(r"\w+", answer.casefold())
    copied = any(part in instruction.casefold() for part in TEMPLATE)
    return copied or ("sorry" in words and len(words) < REFUSAL_WORDS) or set(words) <= STOP_WORDS


def data_set(answered: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Returns rows for supervised fine-tuning: for each different instruction, the first pair of instruction and answer that does not fail."""
    answers: dict[str, str] = {}
    for text, answer in answered:
        if not fails(text, answer):
            answers.setdefault(text, answer)
    return [{"prompt": text, "solution": answers[text]} for text in diverse(list(answers))]


teams_rl = trpo.derive(
    "teams_rl",
    "A small policy chooses the operations that rewrite instructions, and TRPO with a critic rewards rewrites that add something.",
    family="data",
    rollout=Episodes(),
    reward=EnvironmentReturn(),
    credit=GAE(gamma=0.995, lam=0.97),
    players__policy__model=Fresh(hidden=(64, 64)),
    players__critic=Player(Fresh(hidden=(64, 64), outputs="value"), objective=Frozen(value=ValueLoss(None)), learns_from="policy"),
    update=TrustRegion(max_kl=0.01, damping=0.1, iterations=10),
)

_SMALL = {"prompts": "8", "group": "8", "learning_rate": "1e-3", "study": "none"}

claims = (
    same_weights(
        says="Without the critic the final weights are those of TRPO on the same episodes.",
        source="arXiv:2403.08694, TRPO",
        against="trpo --rollout Episodes --reward EnvironmentReturn --players.policy.model Fresh --update.others.epochs 4",
        own={"credit": "BatchBaseline", "players.critic": "none"},
        task="rewriting",
        fields=_SMALL,
    ),
    Claim(
        says="On rewriting, after 25 steps, the rewrites of an episode that add something are at least 1.2 times those of random operations.",
        source="arXiv:2403.08694, diversity per query; the program as instructor, the steps and the bound are ours",
        against="teams_rl --update.max_kl 1e-12",
        measure="reward:last",
        at_least=1.2,
        task="rewriting",
        fields=_SMALL,
        budget="steps=25",
    ),
)
