"""TriMPI: a model learns a long document of rules by heart. In the RL stage, half of the answers are sampled with the document, and trained without it.

    read: loss = -1/Z sum_t log pi(s_t | s_(<t)), quad s = (P, x, y), "without the tokens of pictures"
    imitate: loss = -1/Z sum_t log pi(y_t | x, y_(<t))
    practise: o_1, ..., o_(G/2) ~ pi_old(o | x), quad o_(G/2+1), ..., o_G ~ pi_old(o | P, x)
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.3) A_i) + 0.01 k_3]
    rho = (pi(o_(i,t) | x, o_(i,<t))) / (pi_old(o_(i,t) | x, o_(i,<t)))

P is the document, x a request (a text, or a text with pictures) and y the worked reply. At test time the prompt is x alone. Z is the number of tokens
of the batch that are learned. Stage `read` learns every token of document, request and reply, so the rules enter the weights. Stage `imitate` is SFT
without the document. In stage `practise` the answers with P and without P form one group: r, its mean and its deviation are over all G. The policy
learns every answer under x, even if its prompt had P. The probability pi_old is also computed under x, so rho is 1 before the first update. So the
policy learns from a right answer with the document to answer without the document. A group whose plain answers are all wrong can get a gradient, too.
The KL term k_3 is that of grpo; its reference is the policy at the end of stage `imitate`. Metric: with_document (accuracy of the answers with the
document).

Use if: a long and fixed document stands before every request, and the model follows the document better if the prompt contains it.
Avoid if: the document changes often, or the model ignores it (see sft).
Reference: Wang et al., Multimodal Policy Internalization for Conversational Agents, arXiv:2510.09474: visually masked continued pre-training, SFT with chains of
thought, and PolicyRollout for GRPO (eq. 3) and DAPO. We read sections 4 and 5 and appendices B to D, and found no code.
Departures: Only the GRPO form is here; the DAPO form has no KL term, the upper bound 0.28 and dynamic sampling (see dapo). The paper does not give
the size of a group and the average over tokens. G = 8 is our choice, and 1/|o_i| is the factor of GRPO. The paper updates several times per batch of
answers; here one update per batch is the default, and the clip acts from `--update.count 2` on. In stage `read` the paper averages over each text
first; here Z counts the tokens of the batch. The paper gives each stage its own learning rate, and SFT trains LoRA; here all stages train all weights
with one rate, and their lengths are our choices. The reward has no points for the form. Demonstration pictures inside the document are left out;
requests may have pictures. The task `service_desk` has only text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.demonstrations import answer_text
from gradus.rollouts.plain_text import PlainText
from gradus.rollouts.reprompted import reprompted
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Problem, Request, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Rollout, Task, World
from gradus.types.prompts import Prompt, before, prompt_of
from gradus.types.ranges import check_ranges

COLUMN = "document"


def documented(request: Request, world: World) -> Prompt:
    """Returns the prompt of a request after the document of its problem. Raises UserError if the problem has no document."""
    found = request.problem.meta.get(COLUMN)
    if not isinstance(found, str):
        raise UserError(f'problem {request.problem.id} has no document; add the column "{COLUMN}" with the text of the rules to its row')
    return before(prompt_of(request, world.task.system), found)


@dataclass(frozen=True)
class WholeText:
    """Gives document, request and worked reply as one text. The player learns every token of it, except the first token and the tokens of pictures."""

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because given texts are not judged."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, with one trajectory."""
        return await PlainText().run([replace(r, problem=self._told(r, world)) for r in requests], world)

    def _told(self, request: Request, world: World) -> Problem:
        prompt, reply = documented(request, world), answer_text(request.problem, "solution")
        text = f"{prompt}{reply}" if isinstance(prompt, str) else (*prompt, {"role": "assistant", "content": reply})
        return replace(request.problem, meta=Frozen({**request.problem.meta, "documents": (text,)}))


@dataclass(frozen=True)
class PolicyRollout:
    """Samples a share of each group (rounded down) with the document in the prompt. In the update these answers follow the plain prompt."""

    rollout: Rollout = Auto()
    share: float = 0.5  # share of the answers that are sampled with the document in the prompt
    asks_right: ClassVar[str] = "Auto"  # the part to use instead if no answer is marked as right
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, the answers without the document first."""
        counts = [int(self.share * r.count) for r in requests]
        own = [replace(r, count=r.count - n) for r, n in zip(requests, counts, strict=True)]
        groups = one_each(await rolled(self.rollout, own, world), own, self)
        due = [i for i, n in enumerate(counts) if n]
        asked = [replace(requests[i], count=counts[i], prompt=documented(requests[i], world), tags=(*requests[i].tags, COLUMN)) for i in due]
        made = one_each(await rolled(self.rollout, asked, world), asked, self) if asked else []
        for i, more in zip(due, made, strict=True):
            world.note("with_document", sum(t.right for t in more.trajectories) / max(1, len(more.trajectories)))
            moved = await reprompted(more, world.prompt(requests[i]), world)
            groups[i] = groups[i].but(trajectories=(*groups[i].trajectories, *moved.trajectories), pool=(*groups[i].pool, *moved.pool))
        return groups


reading = sft.derive(
    "trimpi_reading", "Next-token training on document, request and reply.", rollout=WholeText(), requires=frozenset({COLUMN, "solution"})
)

trimpi = grpo.derive(
    "trimpi",
    "A document of rules is learned by heart: reading, SFT, and RL in which half of each group is sampled with the document and trained without it.",
    family="guidance",
    rollout=PolicyRollout(),
    objective__policy__trust=Clip(0.2, 0.3),
    objective__kl=KL(0.01),
    schedule=Stages(Frozen(read=Stage(reading, Steps(100)), imitate=Stage(sft, Steps(100)), practise=Stage(until=Steps(100)))),
    setting__group=8,
    requires=frozenset({COLUMN, "solution"}),
)

_STAGES = "schedule.stages"
_TERMS: Any = {
    "task": "service_desk",
    "options": {"level": "1", "fields": "2"},
    "against": "trimpi --rollout.share 0",
    "fields": {
        "prompts": "4", "group": "8", "learning_rate": "2e-4", "warmup": "0", "eval_every": "0", "study": "none",
        f"{_STAGES}.read.until": "Steps(count=4)", f"{_STAGES}.imitate.until": "Steps(count=2)", f"{_STAGES}.practise.until": "Steps(count=10)",
    },
    "budget": "steps=16",
}  # fmt: skip
_START = (
    "Stated again after a look: from the built-in model answers with the document were never right. The start model is the built-in one after 80 steps of "
    "supervised fine-tuning on this task with the document in the prompt; it is the document that the arms learn"
)

claims = (
    same_weights(
        says="Without answers that read the document, the final weights of the RL stage are those of GRPO with the same clip and KL term.",
        source=(
            "arXiv:2510.09474, GRPO without PolicyRollout; stated again with the bounds and the KL term of the paper's appendix B; the reward is one for short "
            "answers, because the built-in model solves no request of this task"
        ),
        against="grpo --objective.kl.coefficient 0.01 --objective.policy.trust.high 0.3",
        own={"rollout.share": "0", "schedule": "ConstantSchedule"},
        fields={"prompts": "4", "group": "4", "study": "none", "reward": "Overlong(share=0.9)"},
        task="service_desk",
    ),
    Claim(
        says="The share of groups with a gradient in the RL stage is at least 1.2 times that without answers that read the document.",
        source=f"arXiv:2510.09474, PolicyRollout against GRPO after the same two stages; the factor, the task and the sizes are ours. {_START}",
        measure="informative:mean",
        at_least=1.2,
        script="benchmarks.warmed trimpi",
        **_TERMS,
    ),
    Claim(
        says="After as many steps, accuracy without the document is at least 0.05 above that without answers that read the document.",
        source=f"arXiv:2510.09474, as above; the size of the effect, the task and the sizes are ours. {_START}",
        measure="accuracy",
        better_by=0.05,
        script="benchmarks.warmed trimpi-accuracy",
        problems=100,
        samples=2,
        **_TERMS,
    ),
)
