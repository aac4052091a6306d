"""window: at most 31 tokens of thinking at a time, for answers that need up to 32.

The task is running sums of ten numbers, with a note after each number. A worked solution has 33 tokens, minus one token for each total below ten. An answer
that is cut directly after its last digit is right. So 44 % of the problems have a solution of at most 31 tokens: in these problems the first two numbers add
up to at most nine. `max_tokens` is 31, so a method that answers in one context can solve no other problems, even if the model always adds right. A method
that carries its last notes into a new window can solve all problems.

The start model imitates worked solutions for six steps. After these steps it solves about two thirds of the problems, if enough tokens are left.
Delethink has at most 4 chunks of 31 tokens each. The last 16 tokens of a chunk are carried over to the next chunk (`rollout.limit`, `rollout.size`,
`rollout.carry`).
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

window = Ground(
    name="window",
    about="At most 31 tokens of thinking at a time, for sums whose notes need more.",
    task="running_sum",
    options=Frozen(level="10"),
    budget="steps=4",
    start=Start("sft", "running_sum", 6, options=Frozen(level="10"), fields=Frozen(learning_rate="1e-3", warmup="0")),
    fields=Frozen({"max_tokens": "31", "learning_rate": "1e-4", "prompts": "8", "group": "8", "warmup": "0", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy", "length", "truncated:last"),
    pair=Pair(
        "delethink --rollout.size 31 --rollout.carry 16 --rollout.limit 4",
        "grpo",
        "accuracy",
        "Delethink continues in a new window with the last 16 tokens; GRPO's answers end with the window.",
    ),
    seeds=5,
    problems=100,
    samples=1,
)
