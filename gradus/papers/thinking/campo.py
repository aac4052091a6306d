"""CAMPO, the RL of MiroMind-M1: the limit of an answer rises in stages, and an answer that repeats itself earns less; an early loop costs more than a
late loop.

    R(o) = [o "right and finished"] - f(o)
    f(o) = 0 "without a loop, else" 1 - t / |o|
    L = 16384 "in the first stage, then" 32768

A loop is a block of 4 to 20 tokens that occurs at least three times in a row; t is the number of tokens before the first loop. An answer that is cut
at the limit L of the stage has no verdict, so its reward is at most 0. In the first stage the model learns to answer within a short limit; long
answers come later, if they raise the reward. Apart from this, the method is DAPO without its penalty for long answers: only groups with right and
wrong answers, a mean over tokens, a wider upper clip, and no KL term. A batch has one update, as in the released script, so the clip does not act.
Metrics: reward/looped (f), setting of the stage.

Use if: answers are cut at the limit, or loop, and a long limit is expensive at first.
Avoid if: answers contain repeated blocks for good reasons, such as tables (see dapo).
Reference: Li et al., MiroMind-M1: An Open-Source Advancement in Mathematical Reasoning via Context-Aware Multi-Stage Policy Optimization,
arXiv:2507.14683: reward and filter (eq. 5 and 6), stages of 16384 and 32768 tokens for the 7B model, the second from step 1200 on (section 4.5.2). Clip
and number of updates are as in the released scripts (MiroMindAsia/MiroMind-M1).
Departures: The paper only says that f is the share of the answer inside the loop. We choose blocks of 4 to 20 tokens, three times in a row; all
tokens after the start of the first loop count. The released code reads only cut answers: the loop must fill the end of the answer, two copies of any
size are enough, and the penalty is a constant 0.1. The released scripts set an option for a varying penalty, but this option has no effect. In
section 4.3, a stage ends when the length of the answers levels off; here it ends at a fixed step. The 32B model has the clip 0.2 on both sides and a
third stage of 49152 tokens in the paper, but not in the scripts. The cascade of verifiers and the cold start by SFT are not part of the recipe: a
verifier belongs to the task, and `sft:500,campo:1000` trains both. The deviation is the population deviation.
"""

from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Sum
from gradus.rewards.finished import Finished
from gradus.rewards.repetition import Looped
from gradus.rewards.verified import Verified
from gradus.schedules.ramp import Ramp
from gradus.types import Frozen

campo = dapo.derive(
    "campo",
    "The limit of an answer rises in stages, and early loops cost reward.",
    family="thinking",
    reward=Sum(Frozen(verified=Verified() * Finished(), looped=Looped()), Frozen(looped=-1.0)),
    schedule=Ramp("setting.max_tokens", ((0, 16384), (1200, 32768)), shape="step"),
    update__count=1,
)

claims = (
    same_weights(
        says="In one stage, and without a price on loops and on cut answers, the final weights are those of DAPO with the plain verdict and one update.",
        source="arXiv:2507.14683, the objective of DAPO",
        against="dapo --reward Verified --update.count 1",
        own={"schedule": "ConstantSchedule", "reward": "Verified"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="The loop score of the answers after 30 steps is at most half of that without a price on loops.",
        source="arXiv:2507.14683, section 4.3.2 (repetition penalty); the ground, where steps are written up to four times, and the factor are ours",
        against="campo --reward.weights.looped 0",
        measure="reward/looped:last",
        at_most=0.5,
        ground="wordy",
        fields={"schedule.points": "((0, 60), (15, 60))"},
        budget="steps=30",
    ),
    Claim(
        says="With a limit of 36 tokens for 15 steps and then 60, answers have at most 0.85 times the length of training at 60 throughout.",
        source="arXiv:2507.14683, section 4.3.1 (a short first stage gives shorter answers); the ground, the limits and the factor are ours",
        against="campo --schedule.points ((0,60),(15,60))",
        measure="length",
        at_most=0.85,
        ground="wordy",
        own={"schedule.points": "((0, 36), (15, 60))"},
        budget="steps=30",
    ),
)
