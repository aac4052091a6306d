"""ToRL: a code interpreter inside the answer. Only rewards for right answers teach the policy when a program helps.

    y = (a_1, o_1, a_2, o_2, ..., a_n), quad n - 1 <= C
    R(y) = 1 if right, quad R(y) = -1 if wrong
    A_i = (R_i - mean(R)) / (std(R))
    loss = mean over tokens of a_k of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t)

An answer y alternates between pieces $a_k$ that the policy writes and outputs $o_k$ that the interpreter inserts. The policy writes a block of Python
and opens a block of output; then the block runs in a sandbox, and its output is inserted. If a block fails, only the last line of its error is inserted. The
first C = 1 blocks are executed. After that the policy writes on without results, and its later blocks are plain text.

Inserted outputs have no loss. There are 128 problems with 16 answers each, and no KL term. The start is a base model without training on tools.
`--reward.fails 0.5` subtracts 0.5 if any executed block failed; the paper finds no gain from this penalty.

Use if: a verifier recognises right answers, the model can write programs, and problems need more arithmetic or search than the model can do in text.
Avoid if: the model cannot write programs yet (train on demonstrations first, see sft), or if programs do not help the task.
Reference: Li et al., ToRL: Scaling Tool-Integrated RL, arXiv:2503.23383, sections 2 and 3.
Departures: The clip, the mean and the deviation are as in the base, grpo. A batch is used for one update, so the ratio is 1 and the clip never acts;
`--update.count` sets more updates. The penalty follows the words of the paper: only a failed block costs reward. The released code (GAIR-NLP/ToRL)
subtracts the penalty unless the last executed block passed. So an answer without any block also gets the penalty there. If a block prints and then
fails, both the output and the error are inserted. In the released code only the output is inserted, and the block counts as passed. An opened output
without a block before it shows a message and counts as a failed call. If the last line of a program is an expression, its value is printed. The
middle of an output above 400 characters is left out; the released code keeps 128 characters at each end. The sandbox gives 5 seconds and 256 MB to a
program. A program that prints nothing shows "(no output)"; the released code reports a timeout. The answer is the text after the last opened output.
The eighth opened output ends an episode, which is then wrong.
"""

from gradus.environments.tools import Tools
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.right_or_wrong import RightOrWrong
from gradus.rollouts.episodes import Episodes
from gradus.tools.forms import FencedCalls
from gradus.tools.python import Python
from gradus.types import Frozen

torl = grpo.derive(
    "torl",
    "A code interpreter inside the answer: the output of a program is inserted and has no loss. The reward is 1 or -1.",
    family="agents",
    environment=Tools(tools=Frozen(python=Python()), form=FencedCalls(), calls=1),
    rollout=Episodes(),
    reward=RightOrWrong(),
    objective__kl=None,
    objective__policy__average=TokenMean(),
    players__reference=None,
    setting__prompts=128,
    setting__group=16,
)

claims = (
    Claim(
        says="From a start that writes programs, accuracy on python_tool is at least 0.2 above the same training without execution.",
        source=(
            "arXiv:2503.23383, table 1 (43.3 % on AIME24 against 30 % without the tool); the start, the task and the size of the effect are ours; "
            "stated again after a look: from a start of 100 steps one seed of three learned"
        ),
        against="torl --environment.calls=0",
        measure="accuracy",
        better_by=0.2,
        task="python_tool",
        options={"level": "1", "instruction": "false"},
        fields={"prompts": "4", "group": "8", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64"},
        budget="steps=16",
        script="benchmarks.warmed torl",
        seeds=3,
    ),
)
