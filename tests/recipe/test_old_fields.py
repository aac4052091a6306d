"""Stored parts whose fields moved, and stored parts that are two parts today: each is read with its effect, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.credit.bellman import SoftBellman
from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.within import Within
from gradus.environments.tools import Tools
from gradus.objectives.regression import LogRatioRegression
from gradus.papers.agents.aepo import RareBranches
from gradus.papers.agents.r1_code_interpreter import SignedAnswer
from gradus.papers.control.wsrl import SomeHeads
from gradus.papers.credit.gigpo import LegalReturn
from gradus.papers.credit.stratified_grpo import Blended
from gradus.papers.data.mathsmith import ForgedProblem
from gradus.papers.data.online_difficulty_filtering import FilledBatch
from gradus.papers.guidance.fast_math_r1 import CharacterCosine, CharacterLength
from gradus.papers.guidance.rlad import UsefulHints
from gradus.papers.multi_agent.at_grpo import TurnCandidates
from gradus.papers.objectives.copg import PairRegression
from gradus.papers.objectives.kimi_k1_5 import GroupLength
from gradus.papers.objectives.magistral import OptionalTags
from gradus.papers.rewards.fapo import OfReached
from gradus.papers.rewards.infimed_orbit import UnmasteredChecklist
from gradus.papers.rewards.light_if import DenseInstruction
from gradus.papers.rewards.r1_t1 import Translated
from gradus.papers.rewards.rlvr_cross_domain import VerdictChance
from gradus.papers.rewards.sirl import PartialKL
from gradus.papers.rewards.timehc_rl import ShuffledGroups
from gradus.papers.rewards.ttrl import WatchedMajority
from gradus.papers.rewards.writing_zero import DrawnPairs, ScoredPair
from gradus.papers.search.rest_rl import AnswerSearch
from gradus.papers.thinking.anytime_reasoner import BudgetExits
from gradus.recipe.old_fields import MOVES, VARIANTS, WITHOUT
from gradus.recipe.old_paths import part_today
from gradus.recipe.serialise import _load, from_json, to_json
from gradus.rewards.cascade import Cascade
from gradus.rewards.checklist import Checklist
from gradus.rewards.downstream import Downstream
from gradus.rewards.environment import EnvironmentReturn
from gradus.rewards.judge import ScriptedPoints
from gradus.rewards.judged import JudgedPairs
from gradus.rewards.length import CosineLength
from gradus.rewards.majority import MajorityReward
from gradus.rewards.overlap import Matches, Overlap
from gradus.rewards.player_judge import PlayerJudge
from gradus.rewards.tags import Tags
from gradus.rollouts.branches import Branches
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.exits import ForcedExits
from gradus.rollouts.flow_sampling import FinishedSamples, FlowSampling
from gradus.rollouts.refine import Refine
from gradus.rollouts.seats import Seats
from gradus.rollouts.siblings import SiblingGroups
from gradus.rollouts.unmasking import Unmasking
from gradus.search.revised import Revised
from gradus.search.tree import UCT, BoundedUCT
from gradus.search.tree_search import TreeSearch
from gradus.selection.filters import Best
from gradus.tools.calculator import Calculator
from gradus.tools.forms import FencedCalls, TaggedCalls
from gradus.types import Frozen, UserError
from gradus.types.samplers import Ode, Sde


def older(part: Any, like: Any, *gone: str, **fields: Any) -> dict[str, Any]:
    """The stored form of `part`, under the path of `like`, without the fields `gone` and with the values that an older version stored."""
    stored = {**to_json(part), "part": to_json(like)["part"], **fields}
    return {name: value for name, value in stored.items() if name not in gone}


TRAJECTORIES, PAIRS = ({"part": f"gradus.objectives.regression:{name}"} for name in ("Trajectories", "Pairs"))
SHUFFLED = {"part": "gradus.rollouts.siblings:ShuffledEvents", "column": "events", "joint": ", "}
SOLVED = ForgedProblem().solved
ERRANDS = {"part": "gradus.rollouts.sub_agents:SubAgents", "players": {"map": {}}, "trained": False, "max_turns": 10}


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (older(ForcedExits(), ForcedExits(), answers=1, trace="member"), ForcedExits()),
        (older(BudgetExits(answers=2), ForcedExits(), trace="apart"), BudgetExits(answers=2)),
        (older(DynamicSampling(), DynamicSampling(), rounds=None, most=None), DynamicSampling()),
        (older(DynamicSampling(rounds=3), DynamicSampling(), most=None), DynamicSampling(rounds=3)),
        (older(FilledBatch(most=2.0), DynamicSampling(), rounds=None), FilledBatch(most=2.0)),
        (older(KLPenalty(coefficient=0.3), KLPenalty(), within=None), KLPenalty(coefficient=0.3)),
        (older(PartialKL(coefficient=0.3), KLPenalty(), within="span"), PartialKL(coefficient=0.3)),
        (older(Checklist(grades=2), Checklist(), most=None), Checklist(grades=2)),
        (older(UnmasteredChecklist(most=0.5), Checklist()), UnmasteredChecklist(most=0.5)),
        (older(FlowSampling(Sde(3)), FlowSampling(), keep="steps"), FlowSampling(Sde(3))),
        (older(FinishedSamples(Ode(3), None), FlowSampling(), keep="sample"), FinishedSamples(Ode(3), None)),
        (older(UCT(0.5), UCT(), plus=0.0, eps=0.0), UCT(0.5)),
        (older(TreeSearch(step=" "), TreeSearch(), backs="children"), TreeSearch(step=" ")),
        (older(AnswerSearch(step=" "), TreeSearch(), backs="answers"), AnswerSearch(step=" ")),
        (older(Branches(0.3), Branches(), penalty=0.0), Branches(0.3)),
        (older(RareBranches(0.3), Branches()), RareBranches(0.3)),
        (older(Cascade(Tags()), Cascade(Tags()), sends="below"), Cascade(Tags())),
        (older(OfReached(Tags()), Cascade(Tags()), sends="reached"), OfReached(Tags())),
        (older(EnvironmentReturn(), EnvironmentReturn(), invalid_penalty=0.0), EnvironmentReturn()),
        (older(LegalReturn(0.2), EnvironmentReturn()), LegalReturn(0.2)),
        (older(Tags(("a",)), Tags(), required=True), Tags(("a",))),
        (older(OptionalTags(("a",)), Tags(), required=False), OptionalTags(("a",))),
        (older(BoundedUCT(0.5), UCT(), plus=1.0, eps=0.1), BoundedUCT(0.5)),
        (older(FencedCalls("sh"), FencedCalls(), around=["", ""]), FencedCalls("sh")),
        (older(SignedAnswer("sh"), FencedCalls(), around=["<<<", ">>>"]), SignedAnswer("sh")),
        (older(Episodes(9, errand_turns=3), Episodes(), "roles", "errand_turns", errands={**ERRANDS, "max_turns": 3}), Episodes(9, errand_turns=3)),
        (
            older(Episodes(), Episodes(), "roles", "errand_turns", errands={**ERRANDS, "players": {"map": {"a": "b"}}, "trained": True}),
            Episodes(roles=Frozen(a="b")),
        ),
        (older(GroupLength(weight=2.0), GroupLength(), characters=False), GroupLength(weight=2.0)),
        (older(CharacterLength(), GroupLength(), characters=True, weight=1.0, after=0.0), CharacterLength()),
        (older(CosineLength(limit=9), CosineLength(), characters=False), CosineLength(limit=9)),
        (older(CosineLength(margin=2, limit=9), CosineLength(), characters=True), CharacterCosine(CosineLength(margin=2), limit=9)),
        (older(JudgedPairs(), JudgedPairs()), JudgedPairs()),
        (older(DrawnPairs(), JudgedPairs(), against="one", both_orders=False, unread="coin"), DrawnPairs()),
        (older(ScoredPair("{answers}"), ScoredPair(), "template", scores={"template": "{answers}", "high": 10}), ScoredPair("{answers}")),
        (older(MajorityReward(True), MajorityReward(), watch=None), MajorityReward(True)),
        (older(WatchedMajority(), MajorityReward(), "majority", missing=True), WatchedMajority(MajorityReward(True))),
        (older(Within(), Within(), blend=1.0), Within()),
        (older(Blended(blend=0.5), Within()), Blended(blend=0.5)),
        (older(Refine(), Refine(), "only", right=False, better=False), Refine()),
        (older(Refine(), Refine(), "only", right=False, better=True), Refine(only="better")),
        (older(SiblingGroups(), SiblingGroups(), rewording=None, count=None), SiblingGroups()),
        (older(SiblingGroups(), SiblingGroups(), player="policy", rewording=SHUFFLED, count=3), ShuffledGroups(joint=", ", count=3)),
        (older(SiblingGroups(), SiblingGroups(), player="policy", rewording={**SHUFFLED, "count": 5}), ShuffledGroups(joint=", ", count=5)),
        (older(LogRatioRegression(0.3), LogRatioRegression(), units=TRAJECTORIES), LogRatioRegression(0.3)),
        (older(PairRegression(0.3), LogRatioRegression(), units=PAIRS), PairRegression(0.3)),
        (older(Unmasking(), Unmasking(), "order", "per_step", how={"part": "gradus.types.masks:Unmask", "order": "left", "per_step": 2}), Unmasking("left", 2)),
        (older(SoftBellman(gamma=0.5), SoftBellman(), subset=None), SoftBellman(gamma=0.5)),
        (older(SoftBellman(gamma=0.5, entropy=False), SoftBellman(), subset=3), SomeHeads(SoftBellman(gamma=0.5, entropy=False), 3)),
        (older(PlayerJudge("a", 2), PlayerJudge(), soft=False), PlayerJudge("a", 2)),
        (older(PlayerJudge("a"), PlayerJudge(), soft=True), VerdictChance("a")),
        (older(Best(3), Best(), above=None), Best(3)),
        (older(Best(1), Best(), above=0.0), UsefulHints()),
        (older(Revised(2), Revised(), until_right=True), Revised(2)),
        (older(Revised(2, keep="best"), Revised(), until_right=False), Revised(2, keep="best")),
        (older(DenseInstruction(), DenseInstruction(), "judge", checklist=to_json(Checklist(ScriptedPoints()))), DenseInstruction()),
        (older(Translated(), Translated(), quality=to_json(Overlap("bleu", of="answer"))), Translated(quality=Matches("bleu"))),
        (older(Seats(Episodes(9)), Seats(), players={"map": {"a": "b"}}), Seats(Episodes(9, roles=Frozen(a="b")))),
        (older(TurnCandidates(), TurnCandidates(), players={"map": {}}), TurnCandidates()),
        (older(Tools((Calculator(),), limit=9), Tools((Calculator(),)), lenient=True), Tools((Calculator(),), limit=9)),
        (older(Tools((Calculator(),)), Tools((Calculator(),)), lenient=False), Tools((Calculator(),), hint=None)),
        (older(TaggedCalls(), TaggedCalls(), end="answer"), TaggedCalls()),
        (older(TaggedCalls(names=(("a", "b"),)), TaggedCalls(), end="x"), TaggedCalls(names=(("a", "b"), ("x", "answer")))),
        (older(Downstream(player="solver"), Downstream(player="solver"), weights={"map": {}}, within=None), Downstream(player="solver")),
        (
            older(ForgedProblem(), ForgedProblem(), "weights", solved=older(SOLVED, SOLVED, weights={"map": {"length": 0.5}}, within="problem")),
            ForgedProblem(weights=Frozen(length=0.5)),
        ),
    ],
    ids=lambda value: value["part"].rpartition(":")[2] if isinstance(value, dict) else type(value).__name__,
)
def test_a_stored_part_keeps_its_effect(stored: dict[str, Any], read: Any) -> None:
    assert from_json(stored) == read


@pytest.mark.parametrize(
    "stored",
    [
        older(ForcedExits(), ForcedExits(), answers=2, trace="member"),
        older(FilledBatch(), DynamicSampling(), rounds=3),
        older(CharacterLength(), GroupLength(), characters=True, weight=2.0, after=0.0),
        older(DrawnPairs(), JudgedPairs(), against="one", both_orders=True, unread="coin"),
        older(SiblingGroups(), SiblingGroups(), rewording=SHUFFLED, count=3),
        older(Refine(), Refine(), right=True, better=True),
        older(Best(2), Best(), above=0.0),
        older(Best(1), Best(), above=0.5),
        older(Revised(keep="best"), Revised(), until_right=True),
        older(BoundedUCT(0.5), UCT(), plus=0.0, eps=0.1),
        older(SignedAnswer(), FencedCalls(), around=["(", ")"]),
        older(Episodes(), Episodes(), "roles", "errand_turns", errands={**ERRANDS, "trained": True}),
        older(Episodes(), Episodes(), "roles", "errand_turns", errands={**ERRANDS, "players": {"map": {"a": "b"}}}),
        older(Downstream(player="solver"), Downstream(player="solver"), weights={"map": {"right": 0.5}}, within=None),
    ],
    ids=lambda value: value["part"].rpartition(":")[2],
)
def test_a_stored_part_with_another_effect_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="use the version that wrote the recipe"):
        from_json(stored)


def test_every_path_is_a_part_of_today_and_a_part_of_today_stays() -> None:
    for path in {*VARIANTS, *WITHOUT, *MOVES, *(other for *_, other in VARIANTS.values())}:
        made = _load(path)
        assert f"{made.__module__}:{made.__qualname__}" == path
    for part in (ForcedExits(), BudgetExits(), DynamicSampling(), FilledBatch(), CharacterLength(), ShuffledGroups(), WatchedMajority(), PairRegression()):
        assert part_today(to_json(part)) == to_json(part)
