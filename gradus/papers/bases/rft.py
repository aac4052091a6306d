r"""RFT: rejection-sampling fine-tuning. The start model answers every problem many times; what is right and not yet said is imitated.

loss = -(1 / number of tokens of the batch) sum over kept answers, sum_t log pi(y_t); kept: right answers of a group, of those with the same
equations in the same order the earliest. The answers are those of the start model throughout, a frozen copy named `start`: the policy that
learns is never sampled in training, so nothing that it learns changes what it learns from.

An equation is a word with "=" inside (`selection.pattern`); an answer without one is compared token by token. The number of samples a
problem is the setting's group (the paper: up to 100). A problem without a right answer teaches nothing.

Reference: Yuan et al., Scaling Relationship on Learning Mathematical Reasoning with Large Language Models, arXiv:2308.01825, section 3.3.
Ours: answers are sampled as training goes and not beforehand, so a problem that comes again is answered anew by the start model; the
worked solutions of the data are not mixed in; of answers with equal equations the earliest stays, where the paper looks for the most
different texts.
"""

from gradus.papers.bases.best_of_n import best_of_n
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.selection.deduplicate import RightAndDistinct
from gradus.types.players import Copy, Player

rft = best_of_n.derive(
    "rft",
    "The policy imitates all right and distinct answers of the model at the start.",
    rollout=BehaviourPolicy("start"),
    selection=RightAndDistinct(pattern=r"\S+=\S+"),
    players__policy=Player(learns_from="start"),
    players__start=Player(Copy("policy")),
)
