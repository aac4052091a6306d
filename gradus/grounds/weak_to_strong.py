"""weak_to_strong: a student that hardly ever solves a problem, beside a teacher that always does.

Chains of keys at level 3 (eleven pairs, three hops), from the built-in model that was made for level 2 (about 0.05 right, and most of that is
guessing: one of nine keys is the answer). Without a worked solution a policy learns to guess, and stays there. The teacher is the task's solver:
each problem holds the walk along the chain. A method that learns from a few solutions solves most problems within ten steps.

Five steps of 64 answers: enough for imitation, with room above it (after twelve, CHORD solves all). Evaluation by 16 problems is for the curve alone.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

weak_to_strong = Ground(
    name="weak_to_strong",
    about="The student hardly solves a problem; worked solutions of a teacher that always does stand beside it.",
    task="keychain",
    options=Frozen(level="3"),
    budget="steps=5",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy", "length", "entropy:last"),
    pair=Pair("chord", "grpo", "accuracy", "CHORD imitates worked solutions beside its own answers; GRPO has only its own, which are hardly ever right."),
    seeds=4,
    problems=60,
    samples=2,
)
