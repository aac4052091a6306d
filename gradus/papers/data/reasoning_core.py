"""Reasoning Core: generates unlimited problems at a level that can lie between whole numbers, in balanced batches; solvers check every answer.

    P(l = n + 1) = x - n, quad P(l = n) = n + 1 - x, quad n = floor(x)
    most = ceil(B / 2)

x is the level, a number such as 2.3. For each problem x is rounded at random to a whole level l, so the mean difficulty is continuous in x. A batch
of B problems has each answer at most `most` times, and no problem twice; other problems are left out, and the next problems are drawn. Without such
limits a generator of yes-or-no questions can give a batch in which one guess is nearly always right.

Any mixture of generated tasks is an environment of this kind, for example `--task planning:1,logic:1,proofs:1,graphs:1,arithmetic:1,sat:1`. The
verifiers of such tasks accept every right answer, such as each valid plan. Problem i at a level depends on i, the level and the seed alone. The
policy learns by GRPO. Metrics: left_out, the share of drawn problems that were left out.

Use if: problems can be generated, their difficulty needs fine steps, or one answer is much more frequent than others.
Avoid if: problems are a fixed set of rows. To choose the level during training, see sec, dump.
Reference: Lacombe, Quesnel & Sileo, Reasoning Core: A Scalable RL Environment for LLM Symbolic Reasoning, arXiv:2509.18083, and the released library.
The paper and the library have stochastic rounding, at most ceil(B / 2) problems with one answer, and optionally no duplicates. The paper evaluates
models and trains none.
Departures: The released library has whole levels and rounds each parameter of a generator separately, after steps of any size. Here the level is
rounded, and the generator has fixed parameters for each whole level. The tasks come from this library, not from the released library. Duplicates are
problems with the same prompt, and they are left out by default. In the released library duplicates stay by default, and each task may define
duplicates in another way. After 50 B problems that are left out, the batch takes the next problems without these limits. GRPO is our choice.
"""

from gradus.curricula.filtered import BalancedBatch
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

reasoning_core = grpo.derive(
    "reasoning_core",
    "Generated problems at a level between whole numbers, in batches without duplicates; no answer occurs in more than half of a batch.",
    family="data",
    curriculum=BalancedBatch(most=0.5, unique=True),
)

claims = (
    same_weights(
        says="Without the limit on answers and with duplicates, the final weights are those of GRPO.",
        source="arXiv:2509.18083, unbalanced generation",
        against="grpo",
        own={"curriculum.most": "1", "curriculum.unique": "false"},
    ),
    Claim(
        says="Half a level is felt: without training the mean reward at level 2.5 of string functions is at least 0.05 below that at level 2.",
        source="arXiv:2509.18083, continuous difficulty (accuracy falls with the level); the task and the size of the effect are ours",
        against="reasoning_core --curriculum.level 2.5",
        measure="reward:mean",
        better_by=0.05,
        task="string_ops",
        fields={"prompts": "16", "group": "8", "learning_rate": "0", "study": "none"},
        own={"curriculum.level": "2"},
        budget="steps=4",
    ),
    Claim(
        says="Another half is felt as well: the mean reward at level 3 is at least 0.05 below that at level 2.5.",
        source="arXiv:2509.18083, continuous difficulty; the task and the size of the effect are ours",
        against="reasoning_core --curriculum.level 3",
        measure="reward:mean",
        better_by=0.05,
        task="string_ops",
        fields={"prompts": "16", "group": "8", "learning_rate": "0", "study": "none"},
        own={"curriculum.level": "2.5"},
        budget="steps=4",
    ),
)
