"""Search-R1: PPO with a search engine inside the answer. The model writes queries while it reasons; found passages are read but not learned.

    y = (a_1, d_1, a_2, d_2, ..., a_n), quad n <= B
    max E[r] - beta KL(pi(. | x; R) || pi_ref(. | x; R))
    r = 1{normal(answer) = normal(gold)}
    loss = mean over tokens of a_k of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t)

An answer y to the question x alternates between pieces $a_k$ that the policy writes and passages $d_k$ that the search engine R inserts. A piece ends
at the first closing tag. <search>q</search> inserts the best 3 passages for q between <information> and </information>. <answer>a</answer> ends the
answer. A piece without either tag is followed by a hint, and counts as one of the B = 4 actions. After B actions without an answer the reward is 0.

Only the tokens of the $a_k$ are in the loss, in the KL divergence, in the critic's loss, in GAE and in whitening. Both gamma and lambda are 1, beta
is 0.001 per token as a penalty in the reward, and the critic's learning rate is ten times the policy's. The function normal() changes a text to lower
case, and removes articles, punctuation and double spaces.

Use if: answers need facts that are not in the weights, a search engine has them, and a right answer can be recognised by its words.
Avoid if: calls are expensive and many are wasted (see webthinker), or if one plain retrieval before the answer suffices.
Reference: Jin et al., Search-R1: Training LLMs to Reason and Leverage Search Engines with Reinforcement Learning, arXiv:2503.09516, sections 3.1 to
3.4. B, 3 passages and the rates are as in the released scripts (PeterGriffinJin/Search-R1).
Departures: The released scripts add one last piece without search after the 4 actions; this recipe does not. The released code masks loss and KL
only, and computes GAE over all tokens; with gamma = lambda = 1 the advantages before whitening are equal. The hint is in our words. Passages are cut
to 400 characters in all; in the scripts the limit is 500 tokens. As in the base, one update has four epochs over the batch, and the range of the
critic's clip is 0.2. The scripts have one epoch in mini-batches of 256 of the 512 answers, and a range of 0.5. An evaluation samples answers in the
same way as training. The paper also has a variant with GRPO's credit, which learns faster and is less stable.
"""

from gradus.credit.gae import GAE
from gradus.credit.kl_penalty import KLPenalty
from gradus.environments.tools import Tools
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import Matches
from gradus.rollouts.episodes import Episodes
from gradus.tools.forms import TaggedCalls
from gradus.tools.search import Search
from gradus.types import Frozen

search_r1 = ppo.derive(
    "search_r1",
    "A search engine inside the answer: passages are inserted after each query and have no loss. The reward is an exact match.",
    family="agents",
    environment=Tools(
        tools=Frozen(search=Search(top=3)),
        form=TaggedCalls("<information>", "</information>"),
        limit=4,
        hint="\nThis is no valid action. Search with <search>words</search>, or answer with <answer>words</answer>.\n",
        verify=Matches("exact"),
    ),
    rollout=Episodes(max_turns=4),
    reward=EnvironmentReturn(),
    credit=KLPenalty(GAE(gamma=1.0, lam=1.0), 0.001, "k1"),
    players__critic__rates=Frozen(trunk=10.0, head=10.0),
)

claims = (
    Claim(
        says="From a start that has seen searches, the exact match on questions of one hop is at least 0.15 above the same training without a search.",
        source=(
            "arXiv:2503.09516, table 2 (above R1 without search); the row's 15 points; the start, the task and the sizes are ours; stated again "
            "after a look at starts, which do not learn two hops in time"
        ),
        against="search_r1 --environment.limit=1",
        measure="accuracy",
        better_by=0.15,
        task="search_qa",
        options={"level": "1", "instruction": "false"},
        fields={"prompts": "4", "group": "4", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "64"},
        budget="steps=12",
        script="benchmarks.warmed search_r1",
        seeds=3,
    ),
)
