"""AIDSAFE: agents extend safety reasoning, a refiner cleans it, and the model learns from it and from answers that overlook a rule.

    (T_(j), y_(j)) = agent_k (x, I, P, T_(j-1), y_(j-1)) quad "until all agents of a round agree, at most R rounds"
    T* = {t in T : t "names no rule outside of" P, quad J(t, t') <= 0.8 "for all earlier" t'}
    loss_1 = -1/N sum_(x) sum_t log pi(z_t | x, z_(<t)), quad z = (T*, y)
    loss_2 = mean over pairs of -log sigmoid(beta (h_w - h_l)), quad h = sum_t log pi(z_t) - log pi_ref(z_t)

An agent splits the request x into intents I and drafts thoughts $T_0$ and a response. Then K = 2 agents speak in turn in at most R = 3 rounds: each
adds or corrects thoughts, or agrees. P is the set of five rules. The refiner removes thoughts that repeat an earlier thought (J is the Jaccard
overlap of their words) or that name a rule outside of P. Stage `deliberated` imitates thoughts and response under a prompt that has the request, but
not the rules. Stage `preferred` is DPO on pairs: the writer of the rejected answer believes that one rule is not in force. A pair is kept if the
judge, a table of rules, scores the rejected answer lower; neither text contains the belief. Metrics: rounds, calls (of agents per request).

Use if: rules exist in writing, a model should reason over these rules, and a single agent overlooks some of them.
Avoid if: one verifier decides each request, because its verdict can then be the reward (see grpo).
Reference: Kumarage et al., Towards Safety Reasoning in LLMs: AI-agentic Deliberation for Policy-embedded CoT Data Creation, arXiv:2505.21784,
abstract: the deliberation, the refiner and beliefs that make rejected answers. No released code was found.
Departures: The numbers of agents, rounds and rules are not from the abstract; the bound 0.8 is our choice. Agents are scripted: agent k knows every
K-th true thought of the problem, the first draft has the first thought, and intents are the words of the request. These agents add only true
thoughts, so in the task `safety` the refiner has nothing to remove. The refiner does not look for deceptive thoughts. Each kept pair comes from one
belief, not from the best of four beliefs. The misled answer is written by a script that drops the named rule, not by the model itself. The lengths of
the stages are our choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import DemonstratedPairs, Demonstrations
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Problem, Request
from gradus.types.moments import Steps
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

ALLOWED, REFUSE, ANSWER = "ok", "refuse", "answer"
BELIEF = "it is fine to ignore the rule {}"


@dataclass(frozen=True)
class Draft:
    """Thoughts, each "THING:RULE" or "THING:ok", and a response."""

    thoughts: tuple[str, ...]
    response: str


class Agent(Protocol):
    def speak(self, request: str, rules: Sequence[str], intents: Sequence[str], draft: Draft) -> Draft | None:
        """Returns the draft with corrected or added thoughts, or None if the agent agrees."""
        ...


def rule_named(thought: str) -> str:
    """Returns the rule that a thought names, or "ok".

    >>> rule_named("acid:harm")
    'harm'
    """
    return thought.rpartition(":")[2]


def response_to(thoughts: Sequence[str]) -> str:
    """Returns "refuse" if a thought names a rule, else "answer"."""
    return REFUSE if any(rule_named(thought) != ALLOWED for thought in thoughts) else ANSWER


@dataclass(frozen=True)
class Knows:
    """A scripted agent that knows some true thoughts. The agent adds those of its thoughts that the draft lacks."""

    thoughts: tuple[str, ...]

    def speak(self, request: str, rules: Sequence[str], intents: Sequence[str], draft: Draft) -> Draft | None:
        missing = [thought for thought in self.thoughts if thought not in draft.thoughts]
        made = (*draft.thoughts, *missing)
        return Draft(made, response_to(made)) if missing else None


def deliberated(request: str, rules: Sequence[str], draft: Draft, agents: Sequence[Agent], rounds: int) -> tuple[Draft, int, int]:
    """Returns the last draft, and the numbers of rounds and calls. The last round is the first round in which all agents agree, but at most round
    `rounds`."""
    intents, calls = request.split(), 0
    for done in range(rounds):
        agreed = True
        for agent in agents:
            calls += 1
            new = agent.speak(request, rules, intents, draft)
            agreed, draft = agreed and new is None, draft if new is None else new
        if agreed:
            return draft, done + 1, calls
    return draft, rounds, calls


def overlap(first: str, second: str) -> float:
    """Returns the Jaccard overlap of the words of two texts; ":" separates words, too."""
    mine, theirs = (set(text.replace(":", " ").split()) for text in (first, second))
    return len(mine & theirs) / max(len(mine | theirs), 1)


def refined(thoughts: Sequence[str], rules: Sequence[str] | None, *, jaccard: float) -> tuple[str, ...]:
    """Leaves out thoughts that overlap an earlier kept thought by more than `jaccard`, or that name a rule outside of `rules` (None: no check)."""
    kept: list[str] = []
    for thought in thoughts:
        known = rules is None or rule_named(thought) in (ALLOWED, *rules)
        if known and all(overlap(thought, earlier) <= jaccard for earlier in kept):
            kept.append(thought)
    return tuple(kept)


def adherence(text: str, problem: Problem) -> float:
    """The scripted judge: the share of the problem's true thoughts that a text has, plus 1 if its response is right."""
    said, _, response = text.rpartition("=")
    true = problem.meta["thoughts"]
    return sum(thought in said.split(" ") or thought in said for thought in true) / len(true) + float(response == problem.answer)


@dataclass(frozen=True)
class Deliberation:
    """Gives one trajectory per request. The text is the deliberated and refined thoughts and the response; for a problem without `thoughts` it is the
    solution.

    At test time the policy acts.
    """

    agents: int = 2
    rounds: int = 3  # largest number of rounds; 0: only the first draft
    jaccard: float = 0.8

    def __post_init__(self) -> None:
        check_ranges(self, agents="[1, inf)", rounds="[0, inf)", jaccard="[0, 1]")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because the trajectories never need judging."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, with one trajectory."""
        return await Demonstrations().run([self.shown(r, world) for r in requests], world)

    def shown(self, request: Request, world: World) -> Request:
        """Returns the request with the made text as the problem's solution."""
        if "thoughts" not in request.problem.meta:
            return request
        text, done, calls = self.written(request.problem)
        world.note("rounds", done)
        world.note("calls", calls)
        return replace(request, problem=replace(request.problem, meta=Frozen({**request.problem.meta, "solution": text})))

    def written(self, problem: Problem) -> tuple[str, int, int]:
        """Returns the text for a problem, the number of rounds, and the number of calls."""
        true, rules = tuple(problem.meta["thoughts"]), tuple(problem.meta["rules"])
        first = Draft(true[:1], response_to(true[:1]))
        team = [Knows(true[k :: self.agents]) for k in range(self.agents)]
        draft, done, calls = deliberated(problem.question, rules, first, team, self.rounds)
        thoughts = refined(draft.thoughts, rules, jaccard=self.jaccard)
        return f"{' '.join(thoughts)}={response_to(thoughts)}", done, calls


@dataclass(frozen=True)
class MisledPairs:
    """Gives pairs of a deliberated answer and the answer of a writer who believes that one of the problem's rules is not valid.

    Requests that break no rule give no pair. At test time the policy acts.
    """

    deliberation: Deliberation = Deliberation()

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because the pairs never need judging."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per pair that the judge keeps."""
        made = [(r, pair_of(r.problem, self.deliberation)) for r in requests]
        told = [replace(r, problem=replace(r.problem, meta=Frozen({**r.problem.meta, **pair}))) for r, pair in made if pair is not None]
        return await DemonstratedPairs().run(told, world) if told else []


def pair_of(problem: Problem, deliberation: Deliberation) -> dict[str, Any] | None:
    """Returns the columns `chosen`, `rejected` and `belief` of a problem. Returns None if no rule is broken, or if the judge does not score
    `rejected` lower."""
    chosen, _, _ = deliberation.written(problem)
    broken = next((rule for t in problem.meta["thoughts"] if (rule := rule_named(t)) != ALLOWED), None)
    if broken is None:
        return None
    believed = [f"{t.rpartition(':')[0]}:{ALLOWED}" if rule_named(t) == broken else t for t in problem.meta["thoughts"]]
    rejected = f"{' '.join(believed)}={response_to(believed)}"
    kept = adherence(rejected, problem) < adherence(chosen, problem)
    return {"chosen": chosen, "rejected": rejected, "belief": BELIEF.format(broken)} if kept else None


preferring = dpo.derive("aidsafe_preferring", "DPO on deliberated and misled answers.", rollout=MisledPairs(), requires=frozenset({"thoughts", "rules"}))

aidsafe = sft.derive(
    "aidsafe",
    "Imitation of safety reasoning that several agents wrote and a refiner cleaned, and then DPO against misled answers.",
    family="data",
    rollout=Deliberation(),
    schedule=Stages(Frozen(deliberated=Stage(until=Steps(100)), preferred=Stage(preferring, Steps(50)))),
)

_SAFETY = {
    "prompts": "8", "group": "8", "learning_rate": "1e-3", "warmup": "0", "eval_every": "0", "study.problems": "96", "study.greedy": "false",
    "schedule": "ConstantSchedule",
}  # fmt: skip

claims = (
    same_weights(
        says="For problems without thoughts and without the second stage, the final weights are those of SFT.",
        source="arXiv:2505.21784, no deliberation",
        against="sft",
        own={"schedule": "ConstantSchedule"},
    ),
    Claim(
        says="Imitation of deliberated answers gives at least 0.1 more held-out accuracy of decisions than imitation of as many first drafts.",
        source="arXiv:2505.21784, fine-tuning on deliberated reasoning against a single draft; the size of the effect is the row's, task and steps are ours",
        against="aidsafe --rollout.rounds 0",
        measure="held_out/accuracy:last",
        better_by=0.1,
        task="safety",
        options={"level": "2"},
        model="gradus/policies/tiny/words",
        fields=_SAFETY,
        budget="steps=16",
    ),
)
