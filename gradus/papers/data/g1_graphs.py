"""G1: GRPO on generated graph problems of many kinds. A solver or a checker gives the reward, and sets of nodes or edges earn partial credit.

    R = 1 if |a - b| <= 0.01, else 0 quad "(a number)"
    R = |A nn B| / |A uu B| quad "(a set)"
    R = 1 if a "is valid and optimal," else 0 quad "(a path, an order, a colouring)"

a or A is the given answer, and b or B is the stored answer. For problems with one right set (all nodes that can be reached, all bridges) the reward
is the Jaccard similarity of the two sets. Problems with many right answers, such as shortest paths, have a checker, and any optimal answer is right.
An answer without the mark of a final answer earns 0. Accuracy counts only answers that are wholly right.

The task `graphs` has eighteen kinds of problem at six levels, from the degree of a node to cliques and flows; a mixture of levels is a mixture of
tasks. The loss is as in grpo with a small KL and 5 answers per problem. Transfer is measured on kinds that were left out of training (`--also
"unseen=graphs --kinds cycle,order"` of `gradus compare`) and on other encodings of the graph (`--also "story=graphs --encoding story"`). A warm start
by imitation is a first stage: `gradus train sft:50,g1_graphs:300 --task graphs`.

Use if: problems have structured answers, such as sets, that a program can check in part.
Avoid if: answers are single values (see grpo).
Reference: Guo, Li, Wang, Jegelka & Wang, G1: Teaching LLMs to Reason on Graphs with Reinforcement Learning, arXiv:2505.18499. The paper has 50 tasks
on subgraphs of 5 to 35 nodes, rewards by type of answer, and GRPO with 5 answers per problem and learning rate 1e-6. The authors' code (PKU-ML/G1)
could not be read here.
Departures: The graphs are generated, not cut from real networks, and have 4 to 26 nodes. Of the paper's 50 tasks, 18 exist here. The mark is "=", not
a box. A repeated element of a set counts as one more wrong element. The weight 0.001 of the KL and the warm start as a stage are our choices.
"""

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.by_answer import ByAnswer

g1_graphs = grpo.derive(
    "g1_graphs",
    "Graph problems of many kinds, with partial credit for answers that are sets.",
    family="data",
    reward=ByAnswer(),
    objective__kl=KL(0.001),
    setting__group=5,
)

claims = (
    same_weights(
        says="On kinds whose answers are no sets, without the tolerance for numbers, the final weights are those of the task's verdicts.",
        source="arXiv:2505.18499, rewards of exact answers",
        against="g1_graphs --reward Verified",
        own={"reward.tolerance": "none"},
        task="graphs",
        options={"kinds": "dist,degree,parts"},
        fields={"prompts": "4", "study": "none"},
    ),
    Claim(
        says="After 40 steps on graph problems the mean reward on held-out problems is at least 0.15 higher than before.",
        source="arXiv:2505.18499, table 1 (3B model from 22.7 to 59.8 percent); the size of the effect, the kinds and the number of steps are ours",
        measure="held_out/reward:gain",
        better_by=0.15,
        task="graphs",
        options={"kinds": "dist,degree,parts,linked,reach,bridges"},
        fields={"learning_rate": "3e-4", "warmup": "0", "study.problems": "100", "study.greedy": "false", "eval_every": "0"},
        budget="steps=40",
    ),
    Claim(
        says="If answers are sets, partial credit gives after 20 steps an accuracy at least 0.02 above that of the task's verdicts.",
        source="arXiv:2505.18499, reward by type of answer; the comparison, the kinds and the size of the effect are ours",
        against="g1_graphs --reward Verified",
        measure="accuracy",
        better_by=0.02,
        task="graphs",
        options={"kinds": "reach,bridges"},
        fields={"learning_rate": "3e-4", "warmup": "0", "study": "none"},
        budget="steps=20",
    ),
)
