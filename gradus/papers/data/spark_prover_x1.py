"""Spark-Prover-X1: continued pre-training on formal documents, then expert iteration, then GRPO on the problems that are still hard.

    loss_1 = -1/N sum_d sum_t log pi(d_t | d_(<t))
    D_k = {(x, y) : y ~ pi_k(y | x), quad y accepted and distinct}
    loss_2 = -1/N sum_((x, y) in D_k) sum_t log pi(y_t | x, y_(<t))
    A_i = (R_i - mean(R)) / (std(R))
    P = {x : 0 < "pass rate of" x <= 1/2}

Stage `documents` learns every token of documents d about the problems. There are six kinds. The first three are a statement with its proof, and the
translation of a statement in each of two directions. The other three are the next state of a proof after a step, the same state after written
reasoning, and the repair of a wrong proof from the checker's error. All kinds that the task writes have equal weight. Stage `experts` has r = 3
rounds k. In each round the policy $pi_k$ writes n = 16 whole proofs y of each statement x. The policy imitates the proofs that the checker accepts. N
is the number of tokens. Stage `hard` is GRPO with 8 proofs per problem on the problems in P, measured with 16 proofs at the start of the stage. The
reward R is 1 if the checker accepts the whole proof, else 0.

Metrics: reward/document (1 in stage `documents`), and screen/kept and screen/pass_rate at the first step of stage `hard`.

Use if: a checker exists, any number of documents about proof steps can be generated, and the model does not yet know the formal language.
Avoid if: the model already proves a large share of the statements, because expert_iteration or difficulty_staged_rl is then enough.
Reference: Zhou et al., Spark-Prover-X1: Formal Theorem Proving Through Diverse Data Training, arXiv:2511.13043, abstract of version 1: continued
pre-training with predicted states after written reasoning, fine-tuning in a loop of expert iteration, GRPO on the most challenging problems; pass@32
of 37.0 % on average. Only the abstract could be read.
Departures: Statements are given in the formal language, so no formaliser is trained and no judge compares translations. Our own choices are equal
weights of the kinds, n, r, the band of pass rates, the lengths of the stages, 64 statements per round and two epochs per round. The tasks `proofs`
and `string_ops` write the documents (`--task.documents true`). `proofs` writes all six kinds; `string_ops` writes only the solutions and the states
without reasoning. The language of the tasks has no placeholder such as sorry: a proof that leaves out a step derives nothing, and earns 0.
"""

from gradus.papers.bases.expert_iteration import expert_iteration
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.plain_text import PlainText
from gradus.schedules.stages import Stage, Stages
from gradus.study.screen import Screened
from gradus.types import Frozen
from gradus.types.moments import Steps

ROUNDS, PROOFS, MOST = 3, 16, 0.5
BIT = 1e-9  # a pass rate of 0 is left out

reading = sft.derive("spark_prover_reading", "Next-token training on documents.", rollout=PlainText(), requires=frozenset({"documents"}))
proving = expert_iteration.derive("spark_prover_proving", "Expert iteration.", setting__prompts=64, setting__group=PROOFS)

spark_prover_x1 = grpo.derive(
    "spark_prover_x1",
    "Continued pre-training on formal documents, expert iteration, and GRPO on problems with a pass rate of at most a half.",
    family="data",
    schedule=Stages(
        Frozen(
            documents=Stage(reading, Steps(100)),
            experts=Stage(proving, Steps(ROUNDS)),
            hard=Stage(until=Steps(100), screen=Screened(low=BIT, high=MOST, samples=PROOFS)),
        )
    ),
)

_STAGES = "schedule.stages"
_SMALL = {
    "prompts": "8", "group": "8", "learning_rate": "1e-4", "warmup": "0", "eval_every": "0", "study.problems": "96", "study.greedy": "false",
    f"{_STAGES}.documents.until": "Steps(count=24)", f"{_STAGES}.experts.until": "Steps(count=3)",
    f"{_STAGES}.experts.recipe.setting.prompts": "8", f"{_STAGES}.hard.until": "Steps(count=8)",
    f"{_STAGES}.hard.screen.problems": "48", f"{_STAGES}.hard.screen.samples": "8",
}  # fmt: skip

claims = (
    same_weights(
        says="Without stages, the final weights are those of GRPO.",
        source="arXiv:2511.13043, the last stage alone",
        against="grpo",
        own={"schedule": "ConstantSchedule"},
        task="string_ops",
        options={"documents": "true"},
    ),
    Claim(
        says="On string functions, the three stages raise held-out accuracy by at least 0.1, that is 0.05 for each of the later stages.",
        source="arXiv:2511.13043, gains from stage to stage; sizes, task and lengths are ours",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="string_ops",
        options={"level": "3", "documents": "true"},
        fields=_SMALL,
        budget="steps=35",
    ),
    Claim(
        says=(
            "With predicted states among the documents, the share of solved chains of string functions after all stages is at least 0.02 above that "
            "after as many documents of whole solutions alone."
        ),
        source="arXiv:2511.13043, documents with predicted states; the size of the effect, task and lengths are ours",
        against=f"spark_prover_x1 --{_STAGES}.documents.recipe.rollout.kinds proof",
        measure="held_out/accuracy:last",
        better_by=0.02,
        task="string_ops",
        options={"level": "3", "documents": "true"},
        fields=_SMALL,
        budget="steps=35",
    ),
)
