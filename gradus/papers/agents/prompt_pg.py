"""PromptPG: a small network learns by REINFORCE which worked examples to put before each question for a frozen language model.

    pi(e_i | p) = (exp(h(e_i) * h(p))) / (sum_j exp(h(e_j) * h(p)))
    h(x) = W enc(x) + b
    loss = -sum_p r sum_(k=1)^K log pi(e_k | p)
    r = 1 if answer right, else -1

$e_1$ to $e_20$ are worked training examples, p is the question, h has 128 outputs, and enc is a frozen encoder. K = 2 examples are drawn one after
another without replacement. The frozen model reads these examples and then answers the question greedily. The first sum is over the 20 questions of a
batch. The learning rate of Adam is 1e-3.

The log-probability of the second draw comes from the softmax over all examples, not from a softmax over the remaining examples. So the gradient is
not exactly the gradient of the expected reward. Only W and b are trained. The players `worker` (answers) and `encoder` are language models that never
change: name them with `--players.worker.model` and `--players.encoder.model`. `--environment.width` sets the encoder's width. There is no baseline:
while most answers are right, most draws become more likely. A wrong answer lowers the log-probabilities of the drawn examples without a lower bound.
The test in the paper takes the K examples with the highest probability; `held_out/greedy` is the accuracy of this test. `held_out/accuracy` is the
accuracy with drawn examples.

The method assumes a task with worked solutions and a verifier. The method also assumes that the worker answers some questions right only after
certain examples. If the examples do not matter, there is nothing to learn.

Use if: the language model cannot be trained, worked examples exist, and the choice of examples decides whether the answer is right.
Avoid if: the model's weights can be trained (see grpo, sft), or most answers do not depend on the examples. For instructions in place of examples,
see training_free_grpo.
Reference: Lu et al., Dynamic Prompt Learning via Policy Gradient for Semi-structured Mathematical Reasoning, arXiv:2209.14610. Algorithm 1 sums the
loss over the batch, draws every example from pi, and does not mention replacement. The following is as in the released code
(github.com/lupantech/PromptPG). Draws are without replacement, and the log-probabilities come from the full softmax. Examples are encoded without
their answers. The order of the draws is reversed, so the first draw is nearest to the question. The layer has a bias, and Adam has no weight decay.
The released code draws with numpy; for K = 2 this gives the same distribution as one draw after another.
Departures: The encoding is the last hidden state of a language model at the end of the question. The encoding is scaled to length 1, so the draws are nearly
uniform at the start. In the paper the encoding is the hidden state of BERT's first token. With unscaled states of width 160, about two candidates have nearly
all the probability. In the authors' stored run, the first printed question gives each of the 20 candidates a probability of 0.02 to 0.13. Candidates are
training questions. The best checkpoint has the highest held-out accuracy. A question is never its own example, but the softmax at this question still
includes the question itself. The 240 steps are 30 epochs of 160 questions (`--task.problems 160`). The released code has 20 epochs, not 30. In the released
code every epoch has the same batches; here the questions are shuffled. In the released code no candidate is a training question, and the epoch with the best
training reward is kept. The released code takes the logarithm after the softmax, and ends the training if a loss is NaN. The released test program takes the
first 20 training questions as candidates, not the candidates of the training. In the stored run of the released code (checkpoints/exp1) the total reward of
an epoch is 38 at first, 56 at best (the fourth epoch) and 30 at the end. At the end two candidates have all the probability at every question that is
printed. The repository's commit 914db77 stores three more runs. The total rewards of the first, best and last whole epoch are 42, 64 and 52 in the first run.
In the second run these rewards are 74, 84 and 40, and in the third run 28, 28 and 10. The first and the third of these runs end early at a NaN loss.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradus.credit.reward_to_go import RewardToGo
from gradus.environments.examples import DrawnExamples
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.types.batch import Batch
from gradus.types.players import Fresh, Player
from gradus.updates.optimizers import AdamW


@dataclass(frozen=True)
class BatchSum:
    """The sum over all actions of the mini-batch. Every action has the weight 1."""

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        return torch.ones_like(batch.weight)


prompt_pg = reinforce.derive(
    "prompt_pg",
    "A small network next to a frozen language model learns which worked examples to put before each question.",
    family="agents",
    environment=DrawnExamples(),
    rollout=Episodes(),
    reward=EnvironmentReturn(),
    credit=RewardToGo(whitened=False),
    objective__policy__average=BatchSum(),
    optimizer=AdamW(lr=1e-3, clip=None),
    players__policy__model=Fresh(kind="pointer", hidden=(128,)),
    players__worker=Player(),
    players__encoder=Player(),
    setting__prompts=20,
    setting__group=1,
    setting__steps=240,
    setting__warmup=0,
    requires=frozenset({"solution"}),
)

claims = (
    Claim(
        says=(
            "Tables of numbers up to 9 with four kinds of question, 160 of them for training, 20 candidates, two examples, and a worker that "
            "answers well only after an example of the question's kind: after 80 steps of 20 questions (10 epochs) the examples that the selector "
            "finds likeliest give right answers to 150 held-out questions at least 10 points more often than examples drawn uniformly. The share "
            "of prompts with an example of the kind is about 0.45 for uniform draws and at least 0.85 for the likeliest, and the deviation of "
            "right answers over 5 runs is at most half that of uniform draws."
        ),
        source=(
            "arXiv:2209.14610, the comparison with random selection and its spread; task, worker and the three thresholds are ours, and 10 epochs "
            "are fewer than the paper's 30. It replaces, before any measurement, a claim whose worker was the built-in model, which answers no "
            "question about a table after any examples, so that nothing could be learned."
        ),
        measure="right answers on 150 held-out questions, likeliest examples minus uniform draws",
        better_by=0.1,
        task="tables",
        options={"problems": "160", "largest": "9"},
        budget="steps=80",
        seeds=5,
        script="benchmarks.prompt_pg",
    ),
)
