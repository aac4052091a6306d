"""SemanticGRPO: an explanation earns a reward if its embedding is like the embedding of an expert's explanation. The words may differ.

    R = 0.5 max(cos(E(e), E(e_ref)), 0) + 0.4 right + 0.1 form
    E(e) = u / |u|, quad u = mean over windows of m / |m|
    A_i = (R_i - mean(R)) / (std(R))
    loss_E = mean over texts of -1/|P(i)| sum_(p in P(i)) log (exp(cos_(i p) / tau)) / (sum_(j != i) exp(cos_(i j) / tau))

e is the explanation, that is the text before the final answer, and $e_ref$ is the explanation of the worked solution. m is the mean of the last
hidden states of a window of the text, and E is the embedding of a frozen, small encoder. The term "right" is the verdict; the term "form" is 1 if the
answer has exactly one "=". An explanation in other words than the reference keeps its reward; an explanation with the words of the reference but
other facts loses it. Apart from this, the method is GRPO; the KL term to the fine-tuned model works against texts that only please the encoder.

Stages: `pretrain` learns every token of documents, `imitate` learns worked solutions, `encoder` trains the encoder, and `reinforce` is GRPO. In stage
`encoder` the policy does not change. The documents of one problem have the same content in several wordings. P(i) are the other wordings of text i, and all
other texts of the mini-batch are negatives; tau is 0.1. Problems with one document change nothing. Metrics: reward/semantic, `matched` (the
share of texts whose nearest text is another wording of the same content). With `--players.encoder.model FOLDER` the encoder is another model.

Use if: experts wrote explanations for the training problems, and quality means the same content, not the same words.
Avoid if: no references exist, or a verifier can check the explanation (see posterior_grpo), or the cosines within a group hardly differ.
Reference: Pappone et al., Shaping Explanations: Semantic Reward Modeling with Encoder-Only Transformers for GRPO, arXiv:2509.13081, abstract: cosine
of small-encoder embeddings, further rewards for correctness and form, continued pre-training and fine-tuning before GRPO.
Departures: No code was found, and only abstract and summaries were read. The weights, the clip at 0, windows of 256 tokens and the stage `encoder`
with its loss are our choices; the paper takes a ready encoder-only model. Here the encoder is a copy of the policy, so its attention is causal. The
contrastive loss comes from Khosla et al., arXiv:2004.11362. The KL coefficient and the clip are as in grpo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.credit.groups import Constant
from gradus.objectives.contrastive import Contrastive
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.thinking.hrpo import MarkedOnce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, Sum
from gradus.rewards.likeness import Embedded, Likeness
from gradus.rewards.stated_facts import explanation
from gradus.rewards.verified import Verified
from gradus.rollouts.plain_text import PlainText
from gradus.schedules.stages import Stage, Stages
from gradus.types import NOT_APPLICABLE, Frozen, Group
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Signals, World
from gradus.types.players import Copy, Player
from gradus.types.signals import Signal


@dataclass(frozen=True)
class LikeReference(Combines):
    """The likeness of an explanation and the explanation of the worked solution; a negative likeness counts as 0. The reward does not apply without a
    solution."""

    likeness: Likeness = Embedded()
    tag: str | None = None  # the tags around an explanation; None: it is the text before the last "="
    name: ClassVar[str] = "semantic"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # no value means "right"

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        due = [[t.problem.meta.get("solution") for t in g.trajectories] for g in groups]
        texts = [(explanation(t.completion, self.tag), s) for g, row in zip(groups, due, strict=True) for t, s in zip(g.trajectories, row, strict=True)]
        found = iter(await self.likeness.alike([(e, explanation(str(s), self.tag)) for e, s in texts if s is not None], world))
        values = [[NOT_APPLICABLE if s is None else max(next(found), 0.0) for s in row] for row in due]
        return [[Judgement(v, Frozen({self.name: v})) for v in row] for row in values]


ENCODER = Frozen(
    {
        "rollout": PlainText(),
        "requires": frozenset({"documents"}),
        "objective": None,
        "players.encoder.objective": Frozen(contrast=Contrastive()),
        "players.encoder.learns_from": "policy",
        "players.encoder.credit": Constant(),
    }
)
"""The fields that differ in stage `encoder`: the wordings of a content are a group, and only the encoder learns."""

reading = sft.derive("semantic_reward_reading", "Next-token training on documents.", rollout=PlainText(), requires=frozenset({"documents"}))

semantic_reward_grpo = grpo.derive(
    "semantic_reward_grpo",
    "The reward of an explanation is the cosine between its embedding and the embedding of an expert's explanation.",
    family="rewards",
    reward=Sum(
        Frozen(semantic=LikeReference(), verified=Verified(), form=MarkedOnce("=", required=True)), Frozen(semantic=0.5, verified=0.4, form=0.1)
    ),
    players__encoder=Player(Copy("policy")),
    schedule=Stages(
        Frozen(
            pretrain=Stage(reading, Steps(100)),
            imitate=Stage(sft, Steps(100)),
            encoder=Stage(until=Steps(100), changes=ENCODER),
            reinforce=Stage(until=Steps(200), players=Frozen(encoder="encoder.encoder")),
        )
    ),
)

_STAGES = {
    "schedule.stages.pretrain.until": "Steps(count=1)", "schedule.stages.imitate.until": "Steps(count=1)",
    "schedule.stages.encoder.until": "Steps(count=20)", "schedule.stages.reinforce.until": "Steps(count=25)",
}  # fmt: skip
_TERMS: dict[str, str] = {
    "prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "eval_every": "0", "study.problems": "64", "study.greedy": "false",
    "study.reward": "StatedFacts", **_STAGES,
}  # fmt: skip

claims = (
    same_weights(
        says="With the verdict as the only reward and without the other stages, the final weights are those of GRPO.",
        source="arXiv:2509.13081, without the semantic reward",
        against="grpo",
        own={"reward": "Verified", "schedule": "ConstantSchedule", "players.encoder": "none"},
        budget="steps=4",
    ),
    Claim(
        says="From a start that imitated explanations, the share of right facts in held-out explanations rises by at least 0.05.",
        source="arXiv:2509.13081, abstract (faithfulness above the fine-tuned model); task, start, sizes and the size of the effect are ours",
        measure="held_out/reward:gain",
        better_by=0.05,
        task="explained",
        fields=_TERMS,
        budget="steps=47",
        script="benchmarks.warmed semantic_reward_grpo",
    ),
    Claim(
        says="After as many steps this share is at least 0.05 above that with ROUGE-L in place of the cosine.",
        source="arXiv:2509.13081, abstract (ROUGE misses the meaning); task, start, sizes and the size of the effect are ours",
        against="semantic_reward_grpo --reward.parts.semantic.likeness Worded",
        measure="held_out/reward:last",
        better_by=0.05,
        task="explained",
        fields=_TERMS,
        budget="steps=47",
        script="benchmarks.warmed semantic_reward_grpo-overlap",
    ),
)
