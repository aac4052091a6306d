"""The rules of advice, in the order in which they are tried. The first rule that applies gives the three recipes.

If two rules apply and the advice of one is wrong in the situation of the other, the other rule comes first. So the order is: rules about rewards that can be
cheated, about the goal, about the settings, and about the strength of the model. `python -m benchmarks.advice` compares the first recipe of each rule with
GRPO on the rule's grounds.
"""

from __future__ import annotations

from gradus.advice.facts import HARDER, KEPT, SHORT, VARIED
from gradus.advice.rule import At, Choice, Rule

GRPO = Choice("grpo", "Compares the answers of a group with each other and needs no further model. It is the common reference.")
CHORD = Choice("chord", "Imitates the worked solutions and learns from its own answers at the same time, so learning does not depend on lucky answers.")
SFT = Choice("sft", "Imitates the worked solutions. This recipe samples nothing, so it is the cheapest.")
RFT = Choice("rft", "Imitates right answers of the start model. This recipe never samples the trained policy, so the policy stays close to the start model.")

RULES: tuple[Rule, ...] = (
    Rule(
        "pairs, no verdict",
        (At("pairs", "is", True), At("judged", "is", False)),
        (
            Choice("dpo", "Learns from the difference between the two answers of a pair, so a wrongly labelled pair cancels only one correctly labelled pair."),
            Choice("ipo", "Pulls the margin between the two answers to a finite value, so the margin does not grow without bound, even with few pairs."),
            Choice("simpo", "Compares mean log-probabilities and needs no copy of the start model in memory."),
        ),
        pair="noisy_pairs",
    ),
    Rule(
        "no reward",
        (At("judged", "is", False), At("solutions", "is", True)),
        (
            SFT,
            Choice("sft --learning_rate {third_rate}", "With a third of the rate, the model loses less of its other abilities."),
            Choice("sft --players.policy.model Adapter", "Trains a LoRA adapter and leaves the model's own weights unchanged."),
        ),
        pair="depth",
    ),
    Rule(
        "learned reward",
        (At("learned", "is", True),),
        (
            Choice(
                "rft --selection Best",
                "Imitates the best answer of each group of the start model, so the learned reward cannot lead the policy beyond these answers.",
            ),
            Choice(
                "best_of_n",
                "Imitates the best answer of each group of the current policy. The policy gains more than with `rft`, but moves further from the start model.",
            ),
            Choice("grpo --objective.kl.coefficient 0.5", "A strong KL term keeps the policy close to the start model. Watch the held-out accuracy."),
        ),
        ("gold_proxy",),
    ),
    Rule(
        "hole in the reward",
        (At("overpaid", "at least", 0.01), At("overpaid", "at most", 0.3), At("verifier", "is", True)),
        (
            RFT,
            Choice("best_of_n", "Imitates the best answers of the current policy. Read some of these answers, because they may exploit the hole."),
            Choice("grpo --objective.kl.coefficient 0.5", "With a strong KL term, the policy finds the hole later. Fix the reward first."),
        ),
        ("loophole",),
    ),
    Rule(
        "checked steps",
        (At("steps", "is", True),),
        (
            Choice("rloo --reward SoundSteps", "Rewards the share of true steps, so a right result from false steps earns less."),
            Choice("grpo --reward SoundSteps", "Uses the same reward, and standardises it within the group."),
            Choice("prime", "Learns a reward for every token from the verdicts on results. This recipe needs no checked steps."),
        ),
        ("flawed",),
    ),
    Rule(
        "many turns",
        (At("turns", "is", True),),
        (
            Choice("gigpo", "Compares the turns that were taken in the same state, so wasted turns get less credit."),
            Choice("grpo", "Compares whole episodes. This recipe is enough if states hardly ever repeat."),
            Choice("archer", "Trains a critic on replayed episodes. The critic gives a value to each whole utterance."),
        ),
        ("corridor",),
    ),
    Rule(
        "short answers",
        (At("goal", "is", SHORT), At("verifier", "is", True)),
        (
            Choice("dapo --reward.parts.overlong.cache {beyond}", "Penalises the length of nearly every right answer, so a shorter answer gets more reward."),
            Choice("dr_grpo", "Does not divide the loss by the length of an answer, so long wrong answers are not favoured."),
            Choice("rft", "Imitates right answers of the start model, each answer as often as it was sampled."),
        ),
        ("wordy",),
    ),
    Rule(
        "varied answers",
        (At("goal", "is", VARIED),),
        (
            Choice(
                "grpo --objective.kl.coefficient 0.5",
                "A strong KL term keeps the probability of each right answer near its probability in the start model. The term also slows learning.",
            ),
            RFT,
            Choice("rep_exp", "Gives a bonus to answers whose hidden states differ from those of the other answers in the group."),
        ),
        ("many_ways", "table"),
    ),
    Rule(
        "old skill",
        (At("goal", "is", KEPT),),
        (
            Choice("grpo", "Moves probability only among answers that the model already gives, so the model loses less of the old skill."),
            Choice("grpo --objective.kl.coefficient 0.2", "Uses a stronger KL term. Choose this recipe if plain `grpo` still loses some of the old skill."),
            Choice("rft", "Imitates the model's own right answers, which are in its own words."),
        ),
        ("two_skills",),
    ),
    Rule(
        "harder problems",
        (At("goal", "is", HARDER), At("solutions", "is", True)),
        (
            Choice(
                "sft --learning_rate {rule_rate}",
                "Imitates the worked solutions at the learning rate that Gradus computes for this model. With a higher rate, the skill transfers less to "
                "harder problems.",
            ),
            CHORD,
            GRPO,
        ),
        ("depth",),
    ),
    Rule(
        "never right, with solutions",
        (At("pass_16", "at most", 0), At("solutions", "is", True), At("turns", "is", False)),
        (
            SFT,
            CHORD,
            Choice("luffy", "Puts a worked solution into every group, next to the model's own answers."),
        ),
    ),
    Rule(
        "small window",
        (At("truncated", "at least", 0.2),),
        (
            Choice(
                "delethink --rollout.size {max_tokens} --rollout.carry {half} --rollout.limit 4",
                "Thinks in chunks: after each chunk the model continues from the question and the last tokens of the chunk.",
            ),
            Choice("grpo --max_tokens {double}", "Allows longer answers. Choose this recipe if you have enough memory and time."),
            Choice("dapo", "A penalty for overlong answers teaches the model to end an answer in time."),
        ),
        ("window",),
    ),
    Rule(
        "stale samples",
        (At("updates", "at least", 16),),
        (
            Choice("expert_iteration", "Imitates right answers. This recipe uses no ratio of probabilities, so old samples stay valid."),
            Choice("grpo --objective.policy.trust.low 0.05 --objective.policy.trust.high 0.05", "A narrow clip stops the change of a token's probability early."),
            Choice("gspo", "Computes and clips one ratio for a whole answer."),
        ),
        ("stale",),
    ),
    Rule(
        "high learning rate",
        (At("rate", "at least", 20),),
        (
            Choice("trpo", "Bounds the KL divergence of every update, and halves an update that exceeds this bound."),
            Choice(
                "grpo --learning_rate {rule_rate}",
                "Uses the learning rate that Gradus computes for this model. Choose this recipe unless you need the high rate.",
            ),
            Choice("ppo", "Stops the passes over a batch if the policy has moved too far."),
        ),
        ("unstable",),
    ),
    Rule(
        "low learning rate",
        (At("rate", "at most", 0.1),),
        (
            Choice("expert_iteration", "Makes eight updates from each batch of samples."),
            Choice("grpo --update.epochs 4", "Uses each batch four times. The clip bounds how far the policy moves."),
            Choice(
                "grpo --learning_rate {rule_rate}",
                "Uses the learning rate that Gradus computes for this model. Choose this recipe unless you need the low rate.",
            ),
        ),
        ("slow",),
    ),
    Rule(
        "noisy verdicts, with solutions",
        (At("noisy", "is", True), At("solutions", "is", True)),
        (
            Choice("sft", "Imitates the worked solutions. This recipe uses no verdict, so no false verdict can mislead it."),
            CHORD,
            Choice("grpo", "Subtracts the mean reward of the group, and with it the mean effect of false verdicts. Needs no solutions."),
        ),
        ("noisy", "noisy_both"),
    ),
    Rule(
        "noisy verdicts",
        (At("noisy", "is", True),),
        (
            Choice("grpo", "Subtracts the mean reward of the group, and with it the mean effect of false verdicts. Imitates no wrongly rewarded answer."),
            Choice(
                "dr_grpo",
                "Uses the baseline of `grpo`, but does not divide by the group's deviation. If a single false verdict is the only difference in a "
                "group, this deviation is small, and a division would enlarge the effect of this verdict.",
            ),
            Choice("rloo", "Uses the mean reward of the group's other answers as the baseline, and does not clip the ratio."),
        ),
        pair="noisy",
    ),
    Rule(
        "guesses, with solutions",
        (At("guesses", "is", True), At("solutions", "is", True)),
        (
            CHORD,
            SFT,
            Choice("luffy", "Puts a worked solution into every group, next to the model's own answers."),
        ),
        ("weak_to_strong",),
    ),
    Rule(
        "rarely right",
        (At("pass_1", "at most", 0.1), At("verifier", "is", True)),
        (
            Choice("grpo", "Learns only from the few groups with right and wrong answers, so give this recipe more steps than usual."),
            Choice("dapo", "Draws further problems until enough groups have right and wrong answers. So a step needs several times as many samples."),
            Choice("grpo --group 32", "Uses larger groups, which more often contain a right answer."),
        ),
        ("sparse",),
    ),
    Rule(
        "trivial and impossible problems",
        (At("solved", "at least", 0.1), At("unsolved", "at least", 0.2), At("mixed", "at most", 0.5)),
        (
            Choice("sec --curriculum.tau 0.2", "Draws more problems of the kinds with large advantages in recent steps."),
            Choice("dapo", "Draws further problems until enough groups have right and wrong answers."),
            Choice("difficulty_staged_rl", "First trains on problems whose measured difficulty is medium."),
        ),
        ("ladder",),
    ),
    Rule(
        "pairs and a verdict",
        (At("pairs", "is", True), At("judged", "is", True)),
        (
            Choice("grpo", "Learns from verdicts on the model's own answers. The given pairs become outdated while the model learns."),
            Choice("online_dpo", "Makes new pairs from the model's own answers at every step."),
            Choice("dpo", "Learns from the given pairs without sampling, so it is cheaper than the other two."),
        ),
        ("noisy_pairs",),
    ),
    Rule(
        "no special difficulty",
        (At("judged", "is", True),),
        (
            GRPO,
            Choice("dapo", "Uses a wider upper clip and a mean over tokens, and drops groups without a gradient."),
            Choice("rloo", "Uses the mean reward of the group's other answers as the baseline. This recipe is the simplest of the three."),
        ),
    ),
)
