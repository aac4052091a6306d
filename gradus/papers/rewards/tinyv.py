"""TinyV: a small language model reads the answers that the rule rejects, and gives the reward 1 to answers that are right in another form.

    r = 1 "if the rule accepts the answer, else" v
    v = 1 "if the verifier writes true, else" 0
    A_i = (r_i - mean(r)) / (std(r))
    P(all r = 0) = (1 - p (1 - f))^G

A rule compares strings or formulas, so it rejects right answers such as 0.5 in place of 1/2. Let p be the share of right answers, and f the share of
right answers that the rule rejects. Then the last line is the chance that a group of G answers has no reward, and therefore no gradient; see
`silent`. With a perfect verifier f is 0. The verifier reads the question, the reference answer and the final answer, not the reasoning. The verifier
is asked only about rejected answers, so a right answer that the rule accepts costs nothing. A text of the verifier without one of the words true and
false counts as false. Apart from this, the method is GRPO with a KL coefficient of 0.001 and two updates per batch.

The verifier is a model of 1.5 billion parameters, fine-tuned on answers with a one-word verdict: real and synthetic false rejections, and as many right
rejections. Name it with `--players.verifier.model`, or ask a server with `--reward.then.judge "ServerJudge(url=...)"`.

Use if: right answers have several forms, and the rule rejects many of them.
Avoid if: the rule rejects few right answers, or the verifier accepts wrong answers, because the policy then learns these answers (see the proving
ground `noisy`).
Reference: Xu et al., TinyV: Reducing False Negatives in Verification Improves RL for LLM Reasoning, arXiv:2505.14625, sections 3 and 4. The released
script (uw-nsl/TinyV) has groups of 8, two updates per batch (128 problems, 64 per update), KL 0.001 and the learning rate 1e-6. The script can also
weigh the verdict, or mix verdict and rule; by default the weight is 1.
Departures: Here a completion without a final answer is wrong, and the verifier is not asked about it; the released scorer asks the verifier. The prompt is
our own. The last word true or false decides, in upper or lower case; in the released client a text with "true" anywhere is true. For a verifier that thinks
first, only `--reward.then.judge.max_tokens` must be changed. If a call fails, the released client repeats it up to three times at a higher temperature, and
then gives 0. Here an answer without a reply has failed, and no update uses it. The released script also subtracts the KL from the reward, with the
same coefficient, and its loss is a mean over tokens; here the KL is only a term of the loss, and the mean is as in GRPO. The verifier is trained with
the recipe sft on rows with answers and verdicts; this training is not part of the recipe here. The claims use a scripted verifier with known errors:
it misses a share 0.2 of the right answers, and accepts a share 0.03 of the wrong answers.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.cascade import Cascade
from gradus.rewards.judged import Judged
from gradus.rewards.player_judge import PlayerJudge
from gradus.rewards.verdicts import YesNo
from gradus.types.players import Player

VERDICT = YesNo(
    "Question: {problem}\nReference answer: {reference}\nModel answer: {answer}\nIs the model answer equivalent to the reference answer? true or false:\n",
    yes="true", no="false",
)  # fmt: skip


def silent(right: float, rejected: float, group: int) -> float:
    """Returns the chance that no answer of a group has a reward: (1 - p (1 - f))^G, with p = `right` and f = `rejected`.

    >>> round(silent(0.5, 0.5, 4), 4), silent(0.5, 0.0, 4)
    (0.3164, 0.0625)
    """
    return float((1 - right * (1 - rejected)) ** group)


tinyv = grpo.derive(
    "tinyv",
    "A small language model reads the answers that the rule rejects, and accepts answers that are right in another form.",
    family="rewards",
    reward=Cascade(Judged(PlayerJudge("verifier", max_tokens=16), VERDICT, final=True)),
    players__verifier=Player(),
    objective__kl__coefficient=0.001,
    update__count=2,
)

_GRPO = "grpo --objective.kl.coefficient 0.001 --update.count 2"
_TERMS = {"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"}
_NOISE = {"of": "arithmetic", "level": "2", "missed": "0.5"}
_SCRIPT = {"reward.then.judge": "ScriptedJudge(missed=0.2, fooled=0.03)"}

claims = (
    same_weights(
        says="If the rule makes no errors, a verifier without errors changes nothing: the final weights are those of GRPO.",
        source="arXiv:2505.14625, at f = 0",
        against=_GRPO,
        options={"level": "2"},
        own={"reward.then.judge": "ScriptedJudge"},
    ),
    Claim(
        says="With a rule that rejects half of the right answers, the share of groups of 4 with a gradient is at the start model at least 0.1 above GRPO's.",
        source=(
            "arXiv:2505.14625, section 3 (groups without a reward); stated again for fixed weights, because in a training run both arms soon have groups of "
            "right answers alone; task, rates and the size of the effect are ours"
        ),
        against=_GRPO,
        measure="informative:mean",
        better_by=0.1,
        task="noisy",
        options=_NOISE,
        fields={**_TERMS, "prompts": "16", "group": "4", "learning_rate": "0"},
        own=_SCRIPT,
        budget="steps=4",
    ),
    Claim(
        says="With a rule that rejects half of the right answers, the held-out accuracy after 8 steps is at least 0.03 above GRPO's.",
        source=(
            "arXiv:2505.14625, main results (up to 10 points above the rule); stated again with the batch of the ground noisy, because seeds with 32 answers "
            "per step differ by more than the effect; task, rates and the size of the effect are ours"
        ),
        against=_GRPO,
        measure="accuracy",
        better_by=0.03,
        task="noisy",
        options=_NOISE,
        fields=_TERMS,
        own=_SCRIPT,
        budget="steps=8",
        problems=60,
        samples=2,
    ),
)
