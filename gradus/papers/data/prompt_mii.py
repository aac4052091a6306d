"""Prompt-MII: the policy reads a few labelled examples and writes one instruction, which earns the F1 score of a frozen follower of this instruction.

    I ~ pi(I | S)
    y_x = pi_0(y | I, x), quad x in T
    R(I) = 1/|C| sum_(c in C) (2 TP_c) / (2 TP_c + FP_c + FN_c)
    A_i = (R_i - mean(R)) / (std(R))
    loss = 1/G sum_i 1/|o_i| sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.4) A_i)

A problem is a data set with classes C. The prompt shows its examples S. The follower $pi_0$, a frozen copy of the first model, reads the instruction
I and one of the 20 test texts x in T, and answers greedily. R is the macro-F1 of the follower's labels: $TP_c$, $FP_c$ and $FN_c$ count right, wrong
and missed texts of class c. A label outside C is wrong. A group has G = 5 instructions $o_i$ for the same S. S and T are drawn again for every
problem, and a batch mixes many data sets. At test time one call writes I, which then replaces S in every prompt. Metric: reward/f1.

Use if: many data sets exist, and prompts with examples are too long for every question.
Avoid if: there is one data set (see training_free_grpo, or prompt_pg for the choice of examples), or the model itself can be trained on that data set
(see grpo, sft).
Reference: Xiao et al., Prompt-MII: Meta-Learning Instruction Induction for LLMs, arXiv:2510.16932. The paper has the F1 of a frozen follower as
reward, 20 test texts, and the first model as the follower. The released script (millix19/promptmii) has G = 5, clip 0.2 and 0.4, no KL, two updates
per batch of 64 data sets, and learning rate 2e-6. The paper has 3,430 data sets for training.
Departures: The released reward adds a line with all labels to the instruction, and counts an answer outside the labels as the first label. Here no
line is added, and such an answer is wrong. The classes are the labels of the test texts. The follower writes at most 12 tokens; in the released script the
limit is 90. An instruction that is too long for the follower earns 0. The task `induction`, and its limit of 48 tokens for an instruction, are our choices.
"""

from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.downstream import Downstream, MacroF1
from gradus.types import Frozen
from gradus.types.players import Copy, Player

prompt_mii = grpo.derive(
    "prompt_mii",
    "The policy writes an instruction from examples, and earns the F1 score of a frozen follower of this instruction.",
    family="data",
    reward=Downstream(Frozen(f1=MacroF1()), player="follower", max_tokens=12),
    objective__policy__trust=Clip(0.2, 0.4),
    objective__kl=None,
    players__reference=None,
    players__follower=Player(Copy("policy")),
    update__count=2,
    setting__group=5,
    requires=frozenset({"questions"}),
)

claims = (
    same_weights(
        says="With the task's verdict in place of the follower's F1 score, the final weights are those of GRPO with these settings.",
        source="arXiv:2510.16932, without the follower",
        against="grpo --reward Verified --objective.kl none --players.reference none --update.count 2 --objective.policy.trust.high 0.4",
        own={"reward": "Verified"},
        task="induction",
        model="gradus/policies/tiny/base",
        options={"level": "2"},
    ),
    Claim(
        says=(
            "From a start model that was shown how instructions are written and followed, the held-out F1 score of the frozen follower under the "
            "policy's instructions for unseen rules rises by at least 0.1."
        ),
        source=(
            "arXiv:2510.16932, 4 to 9 points of F1 above the untrained model; the size at this scale is ours: the task induction with two labels, 32 "
            "held-out sets, and 16 steps of 4 sets"
        ),
        measure="held_out/reward:gain",
        better_by=0.1,
        task="induction",
        options={"level": "2"},
        fields={
            "prompts": "4", "group": "5", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "32", "study.greedy": "false",
        },
        budget="steps=16",
        script="benchmarks.warmed prompt_mii",
    ),
    Claim(
        says=(
            "From a start model that follows and writes instructions (the built-in model for texts, after the same lessons), the held-out F1 "
            "score of the frozen follower for unseen rules rises by at least 0.02."
        ),
        source="arXiv:2510.16932, as above; this start leaves less room, so the size is smaller. The follower of the claim above reads no instruction",
        measure="held_out/reward:gain",
        better_by=0.02,
        task="induction",
        options={"level": "2"},
        fields={
            "prompts": "4", "group": "5", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "32", "study.greedy": "false",
        },
        budget="steps=16",
        script="benchmarks.warmed prompt_mii-words",
    ),
    same_weights(
        says="The same holds from the task's built-in model, whose answers earn rewards, so that the weights move.",
        source="arXiv:2510.16932, without the follower",
        against="grpo --reward Verified --objective.kl none --players.reference none --update.count 2 --objective.policy.trust.high 0.4",
        own={"reward": "Verified"},
        task="induction",
        options={"level": "2"},
    ),
)  # fmt: skip
