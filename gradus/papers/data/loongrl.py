"""LoongRL: trains on long texts in which chains of keys hide the question, in three stages; an answer is right if it contains the stored answer, or
the reverse.

    R(y) = 1 if w(b) sub w(y) or w(y) sub w(b), else 0
    A_i = (R_i - mean R) / (std R)
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)]

An item has a long text. The text contains the facts for several questions, among irrelevant sentences. Several chains of lines {key: key} are at random
places of the text; the last line of each chain has a question. The prompt ends with the first key of one chain. The policy must follow this chain to
its question, and answer it from the facts. The task `hidden_question` generates such items; `length`, `chains` and `depth` are its options. w(b) and
w(y) are the words of the stored answer and of the final answer, in lower case and without punctuation. R is 1 if one of them contains the other as
consecutive words.

Stage `warm` trains on the problems that hide no question, stage `chains` on all problems. Before stage `hard`, the policy answers 256 problems 8
times each, and the problems that it always solves are left out. Short problems in the mixture preserve the skill on short texts, for example `--task
keychain:1,arithmetic:1,hidden_question:2`. `gradus compare` with `--also "long=hidden_question --length 4096"` measures the accuracy on much longer
texts than in training. Metrics: left_out, the share of drawn problems that stage `warm` left out.

Use if: a model should find its question and its facts in long texts, and must also work with much longer texts than in training.
Avoid if: texts are short (see grpo), or answers have no fixed words.
Reference: Wang et al., LoongRL: Reinforcement Learning for Advanced Reasoning over Long Contexts, arXiv:2510.19363. The paper has texts of 16,384
tokens made from multi-hop questions, and GRPO with 8 answers, clip 0.2 and 0.28, and learning rate 1e-6. The stages are a warm-up, KeyChain data, and
hard items. The released code (rStar-RL/LoongRL) has about 4 chains of 4 lines per 1,024 tokens, and keys of 8 digits.
Departures: Words must be equal. In the paper parts of words also count. The released reward only asks whether the final answer contains the stored
answer. The final answer is the last box, or the text after the last "answer:" or "="; without one of these marks R is 0. There is no KL; the released
script has the weight 0.001. Each batch is used for four updates, as in the script. Our own choices are the people, facts, keys of 4 to 8 digits, texts of
160 to 16,384 characters, and the numbers of steps of the stages. The items are not filtered before the first stage.
"""

from gradus.curricula.filtered import Without
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.two_way import TwoWay
from gradus.schedules.stages import Stage, Stages
from gradus.study.screen import Screened
from gradus.types import Frozen
from gradus.types.moments import Steps

loongrl = grpo.derive(
    "loongrl",
    "Chains of keys hide the question in a long text; training goes from plain problems to hidden questions, then to those that are not always solved.",
    family="data",
    reward=TwoWay(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__kl=None,
    players__reference=None,
    update__count=4,
    schedule=Stages(
        Frozen(
            warm=Stage(until=Steps(40), changes=Frozen({"curriculum": Without()})),
            chains=Stage(until=Steps(80)),
            hard=Stage(until=Steps(80), screen=Screened(low=0.0, high=1 - 1e-9, samples=8, problems=256)),
        )
    ),
)

_STAGES = {f"schedule.stages.{name}.until": f"Steps(count={count})" for name, count in (("warm", 1), ("chains", 1), ("hard", 1))}

claims = (
    same_weights(
        says="If every answer is one word, the two-way match is the task's verdict, and the final weights are the same.",
        source="arXiv:2510.19363, two-way substring match against exact match",
        against="loongrl --reward Verified",
        fields={"prompts": "4", "group": "4", "study": "none", "schedule.stages.hard.screen.problems": "8", **_STAGES},
    ),
    Claim(
        says=(
            "On problems of which most are solved, with a third stage on those not always solved, the share of groups with a gradient is over 12 "
            "steps at least 0.05 above that of stages on all problems."
        ),
        source="arXiv:2510.19363, third stage (hard items only); the task, the numbers of steps and the size of the effect are ours",
        against="loongrl --schedule.stages.hard.screen none",
        measure="informative:mean",
        better_by=0.05,
        task="string_ops",
        options={"level": "1"},
        fields={
            "prompts": "8", "group": "8", "warmup": "0", "study": "none", "schedule.stages.warm.until": "Steps(count=1)",
            "schedule.stages.chains.until": "Steps(count=3)", "schedule.stages.hard.until": "Steps(count=8)",
        },
        own={"schedule.stages.hard.screen.problems": "96"},
        budget="steps=12",
    ),
)  # fmt: skip
