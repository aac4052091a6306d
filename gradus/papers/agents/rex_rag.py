"""REX-RAG: some wrong episodes are cut before their answer, get an inserted doubt, and continue. The ratio takes into account that the doubt was inserted.

    q_t = (1 - alpha) pi_old(t) + alpha mu(t), quad rho_t = pi(t) / q_t
    mu(t) = 0 in an original; pi_old(t) z^(-1/j) before the doubt; 1 at its first token; c(t) at its further tokens; pi_old(t) after it
    A_i = (R_i - mean(R)) / (std(R))
    loss = 1/N sum_i 1/|o_i| sum_t (-min(rho_t A_i, clip(rho_t, 1 - 0.2, 1 + 0.2) A_i) + 0.001 k_3)

Each question gets 5 episodes with a search, the originals. With probability 0.2, an original with a wrong answer gets a clone. The clone is the original up
to its last answer block, followed by one of several doubts ("Perhaps I have missed something ..."). The policy then writes on until a new answer.
No clone is cloned. For n originals of the batch, floor(k n) clones are kept: the clones with the highest mean log-probability of their inserted tokens. k
begins at 0.08; after each step with kept clones, k becomes 0.9 k + 0.1 (share of right kept clones). The group of a question contains its
originals and its kept clones.

A batch is a mixture of originals and clones; the share of clones is alpha. So the denominator of the ratio is the mixture's density q. Only wrong
originals are cloned. So $mu$ of the tokens between the prompt and the doubt is $pi_old$ divided by $z^(1/j)$. Here z is the share of wrong originals,
and j is the number of these tokens. c(t) is computed from the doubts that begin with the same tokens before t: c(t) is the share of these doubts that
continue with t. The inserted doubts have a loss; passages and hints have none. Without a clone alpha is 0, and the method is GRPO on episodes. A batch is cut
into 10 mini-batches, so that the clip acts.

Use if: the agent often searches in the wrong place and then answers wrong, so that whole groups are wrong.
Avoid if: most originals are right, or if episodes cannot be copied.
Reference: Jiang et al., REX-RAG: Reasoning Exploration with Policy Correction in Retrieval-Augmented Generation, arXiv:2508.08149. Density, filter, k,
alpha, z and the mini-batches are as in the released code (MiliLab/REX-RAG).
Departures: The wording of the doubts is our choice, and there are 12 (30 in the released code). In the released code the probability of a clone is 20
of 101. In this code a step without kept clones counts like a step with accuracy 0, so k can fall to 0 and stay there; here such a step does not
change k. The number of kept clones is not rounded to a multiple of the number of devices. A failed clone is dropped. The deviation is the
population's. The clone keeps the thought before the answer in the same action. In the released loss the ratio is bounded by 3 if A < 0; here the loss is as
in grpo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.environments.tools import Tools
from gradus.objectives.ratios import TokenRatio
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.overlap import Matches
from gradus.rollouts.clones import STREAM, Doubting
from gradus.tools.forms import TaggedCalls
from gradus.tools.search import Search
from gradus.types import Frozen
from gradus.types.batch import Batch


@dataclass(frozen=True)
class MixtureRatio:
    """The log-ratio log pi(a_t) - log q_t, with q_t = a pi_old(a_t) + b. The stream `mixture` has a and b of every action."""

    against: ClassVar[str] = "old"
    asks: ClassVar[Mapping[str, str]] = Frozen({"mixture": "--rollout Doubting"})
    separable: ClassVar[bool] = True

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        rows = batch.stream(STREAM).to(old.dtype).log()
        return TokenRatio().log_ratio(logprobs, torch.logaddexp(old + rows[:, 0], rows[:, 1]), batch)


rex_rag = grpo.derive(
    "rex_rag",
    "A share of the wrong episodes continues after an inserted doubt, and the ratio has the density of this mixture in its denominator.",
    family="agents",
    environment=Tools(
        tools=Frozen(search=Search(top=3)),
        form=TaggedCalls("<information>", "</information>"),
        limit=5,
        hint="\nThis is no valid action. Search with <search>words</search>, or answer with <answer>words</answer>.\n",
        verify=Matches("exact"),
    ),
    rollout=Doubting(),
    reward=EnvironmentReturn(),
    objective__policy__ratio=MixtureRatio(),
    objective__kl__coefficient=0.001,
    update__count=10,
    setting__group=5,
)

_TERMS = {"prompts": "4", "group": "4", "learning_rate": "1e-4", "eval_every": "0", "update.count": "2"}
_DOUBTS = {"rollout.prob": "1", "rollout.keep": "0.25", "rollout.rate": "0", "rollout.doubts": '("<search>",)'}

claims = (
    same_weights(
        says="From a start that was shown searches, without clones, the final weights are those of GRPO with the same episodes.",
        source="arXiv:2508.08149, alpha = 0; stated again after a look at the built-in model, which earns no reward, so that the ratio has no effect",
        against="rex_rag --rollout Episodes(max_turns=5) --objective.policy.ratio TokenRatio",
        own={"rollout.prob": "0"},
        task="search_qa",
        options={"level": "1", "instruction": "false", "people": "40"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "update.count": "2"},
        budget="steps=2",
        script="benchmarks.warmed rex_rag-limit",
    ),
    Claim(
        says="From a start that rarely searches, the share of questions with a right episode is over 10 steps at least 0.05 above that without clones.",
        source="arXiv:2508.08149, section 4 (more questions with a right trajectory); the row's 5 points; task, start, one doubt and sizes are ours",
        against="rex_rag --rollout.prob 0",
        measure="solved:mean",
        better_by=0.05,
        task="search_qa",
        options={"level": "1", "instruction": "false"},
        fields={**_TERMS, "study": "none"},
        own=_DOUBTS,
        budget="steps=10",
        script="benchmarks.warmed rex_rag",
        seeds=3,
    ),
    Claim(
        says="After 12 steps the exact match is at least 0.02 above that without clones.",
        source="arXiv:2508.08149, table 1 (5.1 and 3.6 points above the strong baselines); the row's 2 points; the task, the start and the sizes are ours",
        against="rex_rag --rollout.prob 0",
        measure="held_out/accuracy:last",
        better_by=0.02,
        task="search_qa",
        options={"level": "1", "instruction": "false"},
        fields={**_TERMS, "study.problems": "64", "study.greedy": "false"},
        own=_DOUBTS,
        budget="steps=12",
        script="benchmarks.warmed rex_rag-accuracy",
        seeds=3,
    ),
)
