"""noisy_pairs: three of ten preferences are the wrong way round.

Arithmetic of two digits, from the built-in model (about 0.4 right: it works in columns or guesses at once). Each problem has two given answers, the
worked columns and a wrong guess; in 30 % of the training pairs they have changed places, at random, so that nothing can be learned about which. All
pairs are new. A method that learns from the difference of the two answers sees swapped pairs cancel against others and takes the side of the
majority: DPO reaches 0.9. A method that also imitates the preferred answer imitates the guesses among them. In ORPO's mean over the tokens of an
answer the first token of a guess, which decides the style, weighs five times that of the columns, so that 30 % of the pairs outvote the others.

swapped=0.3: at 0.2 and a learning rate of 3e-4 the batches' noise decides which style the last weights have. 32 pairs a step and 2e-4: less of that noise.
"""

from gradus.comparison.ground import Ground, Pair
from gradus.types import Frozen

noisy_pairs = Ground(
    name="noisy_pairs",
    about="In a stated share of the preference pairs the worse answer is called the better one.",
    task="noisy_pairs",
    options=Frozen(level="2", swapped="0.3"),
    budget="steps=14",
    fields=Frozen({"learning_rate": "2e-4", "prompts": "32", "study.problems": "16", "study.greedy": "false"}),
    measures=("accuracy", "margin:last"),
    pair=Pair("dpo", "orpo", "accuracy", "In DPO's difference of two answers swapped pairs cancel; ORPO imitates every preferred answer, guesses too."),
    seeds=4,
    problems=60,
    samples=2,
)
