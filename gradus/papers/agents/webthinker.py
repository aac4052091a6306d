"""WebThinker: a reasoning model lets an explorer in another context search, and learns to call tools less often by DPO on its own episodes.

    loss = mean over pairs of -log sigmoid(beta (h_w - h_l))
    h = sum_t [log pi(y_t) - log pi_ref(y_t)]
    pi_ref = M_j, quad M_j becomes M_(j+1), quad j = 1, ..., J

The sum is over the tokens $y_t$ that the main model M wrote, and not over the findings that M read. $h_w$ and $h_l$ belong to the better and the
worse episode of a pair, and beta is 0.1. Training has J = 2 rounds of iterative online DPO. Round j begins with the model $M_j$, which is also the
reference of the round, and ends with $M_(j+1)$.

M thinks and calls tools. A call `search: q` is an errand. The explorer E (the same model in another context) sees the results for q, searches
further, opens pages and ends with a finding. Only the finding enters M's context. For a report, M also calls three further tools: a writer, an
outline and an editor.

A round has n episodes per problem. Every two episodes of a problem are compared by three rules in order; the first rule that decides makes the pair.
Rule 1: a right episode beats a wrong one; two wrong episodes make no pair. If reports have scores, use the rule `Higher(margin)` in place of this
rule, `Right`. Rule 2: if both are right, the episode with fewer turns, and so with fewer tool calls, wins. Rule 3: if both have equally many turns,
the shorter episode wins, provided that the longer episode has more than gamma = 1.5 times as many tokens.

The contexts of E are separate groups. These groups are stored and counted separately, and no update uses them. With
`--rollout.roles '{"explorer": "policy"}'` the errands of a problem also form pairs. The explorer's reward orders such a pair. This reward shows whether the
finding contains the answer to the whole question. So the two contexts of a pair can have different queries. A good finding then loses against a finding that
contains the answer.

Use if: a reasoning model answers or writes reports with search, most tool calls are wasted, and right episodes of different cost can be compared.
Avoid if: the model cannot yet solve the questions with search, so that pairs are rare, or if calls cost nothing (see arpo, grpo).
Reference: Li et al., WebThinker: Empowering Large Reasoning Models with Deep Research Capability, arXiv:2504.21776, sections 3.3 to 3.5 and 4.3,
appendices A and B.1. The paper draws n = 3 episodes at temperature 0.7 for questions that the model does not answer right without search. The paper's
DeepSeek-R1 models first learn from 7.8k episodes of QwQ-32B. The paper gives no beta and states only that gamma is above 1. The paper leaves open
whether E's calls count in rule 2. The paper's equation 6 covers only M's chain; the authors write in their repository that they also train on pairs
of E's contexts.
Departures: E sees three titles and reads pages itself. No intent and no plan is written. One player has all roles (`--rollout.roles` sets
other players). If E reaches its limit, it reports its last page. If M reaches its limit (8 turns in the task `research`), it has no answer. Within a
round each step samples from the newest weights; the paper samples the whole round from $M_j$. Here n = 4, gamma = 1.5, beta = 0.1, and the
temperature is 1. The policy is not trained on E's contexts, and E's calls do not count in rule 2. The length in rule 3 counts M's own tokens. An
illegal action counts as a call. The training code is not released. In the released inference code E is M if M is a QwQ model, else E is an auxiliary
model. The released code gives E the text around the snippets of ten found pages. The auxiliary model guesses the intent of M's searches and of E's
clicks, and summarises opened pages. The auxiliary model also plans, writes, edits and finally rewrites the report. The outline is the list of the
report's headings. By default the released code refuses M's 20th search. After 10 searches and clicks, E must answer. A repeated query gets a note,
which in question mode ends M's episode.
"""

from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stage, Stages
from gradus.selection.pairs import Fewer, RankedPairs, Right, Shorter
from gradus.types import Frozen
from gradus.types.moments import Steps

webthinker = dpo.derive(
    "webthinker",
    "The explorer works in separate contexts. Pairs prefer right episodes, then fewer calls, then fewer tokens, in rounds with a new reference.",
    family="agents",
    rollout=Episodes(max_turns=20),
    reward=EnvironmentReturn(),
    selection=RankedPairs(by=(Right(), Fewer("turns"), Shorter(1.5))),
    objective__given=None,
    schedule=Stages(Frozen(round=Stage(until=Steps(50))), repeat=2),
    setting__group=4,
)

claims = (
    Claim(
        says=(
            "From a model that was shown both ways of searching, two rounds lower the mean number of tool calls on solved held-out questions of "
            "research by at least 15 %, and accuracy is not lower."
        ),
        source=(
            "arXiv:2504.21776, sections 3.5 and 4.3 (two rounds; right, then fewer calls, then shorter answers); the size of the fall is ours, at "
            "the scale of the built-in model: two rounds of 8 steps of 4 questions with 4 episodes"
        ),
        measure="share by which the mean number of tool calls on solved held-out questions falls from start to end",
        better_by=0.15,
        task="research",
        options={"people": "40", "level": "2"},
        fields={"prompts": "4", "group": "4", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "16"},
        budget="steps=16",
        seeds=3,
        script="benchmarks.webthinker",
    ),
)
