"""weak_to_strong: a student almost never solves a problem; a teacher solves every problem.

The task is chains of keys at level 3 (eleven pairs, three hops). Training starts from the built-in model that was made for level 2. About
0.05 of its answers are right, mostly by guessing: the answer is one of nine keys. Without a worked solution a policy learns only to guess.
The teacher is the task's solver: each problem contains the walk along the chain. A method that learns from a few solutions solves most
problems within ten steps.

Five steps of 64 answers are enough for imitation, and the accuracy can still rise (after twelve steps CHORD solves all problems). The evaluation on 16
problems only draws the curve.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

weak_to_strong = Ground(
    name="weak_to_strong",
    about="The student almost never solves a problem; every problem has a worked solution of a teacher.",
    task="keychain",
    options=Frozen(level="3"),
    budget="steps=5",
    fields=Frozen({"learning_rate": "3e-4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy", "length", "entropy:last"),
    pair=Pair(
        "chord", "grpo", "accuracy",
        "CHORD learns from worked solutions and from its own answers; GRPO has only its own answers, which are almost never right.",
    ),
    seeds=4,
    problems=60,
    samples=2,
)
