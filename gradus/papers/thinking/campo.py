"""CAMPO, the RL of MiroMind-M1: the limit of an answer rises in stages, and an answer that repeats itself earns less, the more so the earlier it loops.

    R(o) = [o "right and finished"] - 1/2 f(o)
    f(o) = 0 "without a loop, else" 1 - t / |o|
    L = 16384 "in the first stage, then" 32768

A loop is a block of 4 to 20 tokens that stands three times in a row or more; t is the number of tokens before the first loop. An answer that is cut at the
limit L of the stage has no verdict, so its reward is at most 0. In the first stage the model learns to answer within a short limit; long answers come
later, when they are worth it. The rest is DAPO without its penalty for long answers: only groups with right and wrong answers, a mean over tokens, a wider
upper clip, and no KL term. A batch has one update, as in the released script, so the clip does not act. Metrics: reward/looped (f), setting of the
stage.

Use if: answers are cut at the limit, or loop, and a long limit is expensive at first.
Avoid if: answers contain repeated blocks for good reasons, such as tables (see dapo).
Reference: Li et al., MiroMind-M1: An Open-Source Advancement in Mathematical Reasoning via Context-Aware Multi-Stage Policy Optimization,
arXiv:2507.14683: stages of 16384 and 32768 tokens for the 7B model, a repetition score that is high for early loops, groups filtered by accuracy.
Departures: The form of f, the blocks, and the weight 1/2 are chosen here. The released code (MiroMindAsia/MiroMind-M1) reads only cut answers. The loop
must fill the end of the answer there, and the penalty is a constant 0.1 if there is one; the paper's script asks for a varying penalty, but the option
has no effect. The end of the first stage, step 1000, is chosen here; the paper ends a stage when cut answers and accuracy level off. The third limit,
49152, is in no script. The cascade of verifiers and the cold start by SFT are not part of the recipe: a verifier belongs to the task, and
`sft:500,campo:1000` trains both. The deviation is that of the population.
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
    reward=Sum(Frozen(verified=Verified() * Finished(), looped=Looped()), Frozen(looped=-0.5)),
    schedule=Ramp("setting.max_tokens", ((0, 16384), (1000, 32768)), shape="step"),
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
        source="arXiv:2507.14683, section on the repetition penalty; the ground, where steps are written up to four times, and the factor are ours",
        against="campo --reward.weights.looped 0",
        measure="reward/looped:last",
        at_most=0.5,
        ground="wordy",
        fields={"schedule.points": "((0, 60), (15, 60))"},
        budget="steps=30",
    ),
    Claim(
        says="With a limit of 36 tokens for 15 steps and then 60, answers have at most 0.85 times the length of training at 60 throughout.",
        source="arXiv:2507.14683, section on multi-stage training (fewer tokens); the ground, the limits and the factor are ours",
        against="campo --schedule.points ((0,60),(15,60))",
        measure="length",
        at_most=0.85,
        ground="wordy",
        own={"schedule.points": "((0, 36), (15, 60))"},
        budget="steps=30",
    ),
)
