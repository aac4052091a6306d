"""Renames and moves the stored fields of a part from an older version to the fields of the present version.

A variant of an older part may be a separate part today. The stored fields say which of the two parts they describe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Stored = Mapping[str, Any]

_ANSWERS = "gradus.papers.search.rest_rl:AnswerSearch"
_BATCH = "gradus.papers.data.online_difficulty_filtering:FilledBatch"
_BOUNDED = "gradus.search.tree:BoundedUCT"
_CHANCE = "gradus.papers.rewards.rlvr_cross_domain:VerdictChance"
_COSINE = "gradus.papers.guidance.fast_math_r1:CharacterCosine"
_DRAWN = "gradus.papers.rewards.writing_zero:DrawnPairs"
_EXITS = "gradus.papers.thinking.anytime_reasoner:BudgetExits"
_FINISHED = "gradus.rollouts.flow_sampling:FinishedSamples"
_HEADS = "gradus.papers.control.wsrl:SomeHeads"
_HINTS = "gradus.papers.guidance.rlad:UsefulHints"
_LEGAL = "gradus.papers.credit.gigpo:LegalReturn"
_LENGTH = "gradus.papers.guidance.fast_math_r1:CharacterLength"
_MAJORITY = "gradus.papers.rewards.ttrl:WatchedMajority"
_OPTIONAL = "gradus.papers.objectives.magistral:OptionalTags"
_PAIRS = "gradus.papers.objectives.copg:PairRegression"
_PARTIAL = "gradus.papers.rewards.sirl:PartialKL"
_RARE = "gradus.papers.agents.aepo:RareBranches"
_REACHED = "gradus.papers.rewards.fapo:OfReached"
_SIGNED = "gradus.papers.agents.r1_code_interpreter:SignedAnswer"
_UNMASTERED = "gradus.papers.rewards.infimed_orbit:UnmasteredChecklist"
_SHUFFLED = "gradus.papers.rewards.timehc_rl:ShuffledGroups"

VARIANTS: Mapping[str, tuple[str, Callable[[Any], bool], str]] = {
    "gradus.credit.bellman:SoftBellman": ("subset", lambda subset: subset is not None, _HEADS),
    "gradus.rewards.player_judge:PlayerJudge": ("soft", bool, _CHANCE),
    "gradus.selection.filters:Best": ("above", lambda above: above is not None, _HINTS),
    "gradus.objectives.regression:LogRatioRegression": ("units", lambda units: isinstance(units, dict) and str(units.get("part")).endswith(":Pairs"), _PAIRS),
    "gradus.credit.kl_penalty:KLPenalty": ("within", lambda within: within is not None, _PARTIAL),
    "gradus.credit.within:Within": ("blend", lambda blend: blend != 1, "gradus.papers.credit.stratified_grpo:Blended"),
    "gradus.rewards.cascade:Cascade": ("sends", lambda sends: sends == "reached", _REACHED),
    "gradus.rewards.checklist:Checklist": ("most", lambda most: most is not None, _UNMASTERED),
    "gradus.rewards.environment:EnvironmentReturn": ("invalid_penalty", lambda penalty: penalty != 0, _LEGAL),
    "gradus.rewards.judged:JudgedPairs": ("against", lambda against: against == "one", _DRAWN),
    "gradus.rewards.length:CosineLength": ("characters", bool, _COSINE),
    "gradus.papers.objectives.kimi_k1_5:GroupLength": ("characters", bool, _LENGTH),
    "gradus.rewards.majority:MajorityReward": ("watch", lambda watch: watch is not None, _MAJORITY),
    "gradus.rewards.tags:Tags": ("required", lambda required: not required, _OPTIONAL),
    "gradus.rollouts.branches:Branches": ("penalty", lambda penalty: penalty != 0, _RARE),
    "gradus.rollouts.dynamic_sampling:DynamicSampling": ("most", lambda most: most is not None, _BATCH),
    "gradus.rollouts.exits:ForcedExits": ("trace", lambda trace: trace == "apart", _EXITS),
    "gradus.rollouts.flow_sampling:FlowSampling": ("keep", lambda keep: keep == "sample", _FINISHED),
    "gradus.rollouts.siblings:SiblingGroups": ("rewording", lambda rewording: rewording is not None, _SHUFFLED),
    "gradus.search.tree_search:TreeSearch": ("backs", lambda backs: backs == "answers", _ANSWERS),
    "gradus.search.tree:UCT": ("eps", lambda eps: eps != 0, _BOUNDED),
    "gradus.tools.forms:FencedCalls": ("around", lambda around: around != ["", ""], _SIGNED),
}
"""Class path -> the name of a field, a function that decides by the field's value whether the part is the variant, and the class path of the variant."""

WITHOUT: Mapping[str, Stored] = {
    "gradus.credit.bellman:SoftBellman": {"subset": None},
    "gradus.rewards.player_judge:PlayerJudge": {"soft": False},
    "gradus.selection.filters:Best": {"above": None},
    "gradus.credit.kl_penalty:KLPenalty": {"within": None},
    "gradus.credit.within:Within": {"blend": 1.0},
    "gradus.objectives.regression:LogRatioRegression": {"units": {"part": "gradus.objectives.regression:Trajectories"}},
    "gradus.rewards.cascade:Cascade": {"sends": "below"},
    "gradus.rewards.checklist:Checklist": {"most": None},
    "gradus.rewards.downstream:Downstream": {"weights": {"map": {}}, "within": None},
    "gradus.rewards.environment:EnvironmentReturn": {"invalid_penalty": 0.0},
    "gradus.rewards.length:CosineLength": {"characters": False},
    "gradus.papers.objectives.kimi_k1_5:GroupLength": {"characters": False},
    "gradus.rewards.majority:MajorityReward": {"watch": None},
    "gradus.rewards.tags:Tags": {"required": True},
    "gradus.rollouts.branches:Branches": {"penalty": 0.0},
    "gradus.rollouts.dynamic_sampling:DynamicSampling": {"most": None, "rounds": None},
    "gradus.rollouts.exits:ForcedExits": {"answers": 1, "trace": "member"},
    "gradus.rollouts.flow_sampling:FlowSampling": {"keep": "steps"},
    "gradus.rollouts.siblings:SiblingGroups": {"rewording": None, "count": None},
    "gradus.search.tree_search:TreeSearch": {"backs": "children"},
    "gradus.search.tree:UCT": {"plus": 0.0, "eps": 0.0},
    "gradus.tools.forms:FencedCalls": {"around": ["", ""]},
    _ANSWERS: {"backs": "answers"},
    _BATCH: {"rounds": None},
    _BOUNDED: {"plus": 1.0, "eps": 0.1},
    _DRAWN: {"against": "one", "both_orders": False, "unread": "coin"},
    _EXITS: {"trace": "apart"},
    _FINISHED: {"keep": "sample"},
    _HINTS: {"above": 0.0, "count": 1},
    _LENGTH: {"characters": True, "weight": 1.0, "after": 0.0},
    _PAIRS: {"units": {"part": "gradus.objectives.regression:Pairs"}},
    _OPTIONAL: {"required": False},
    _REACHED: {"sends": "reached"},
    _SHUFFLED: {"player": "policy"},
    _SIGNED: {"around": ["<<<", ">>>"]},
}
"""Class path -> fields that the part no longer has, each with the value that equals the behaviour of today. A stored part with any other value is refused."""


def variant(path: str, stored: Stored) -> str:
    """Returns the class path of a stored part: its present path `path`, or the path of the variant that the fields describe."""
    if path not in VARIANTS:
        return path
    name, is_variant, other = VARIANTS[path]
    return other if name in stored and is_variant(stored[name]) else path


def moved(path: str, stored: Stored) -> dict[str, Any]:
    """Returns the stored fields at the paths of the present version. `path`: the class path from `variant`."""
    known = dict(stored)
    if path in MOVES:
        MOVES[path](known)
    return {name: value for name, value in known.items() if name not in WITHOUT.get(path, ()) or value != WITHOUT[path][name]}


def _scaled(known: dict[str, Any]) -> None:
    """The factor itself now decides whether only positive advantages change."""
    if "when" in known:
        when, factor = known.pop("when"), known["factor"]
        if when == "positive" or factor["part"] == "gradus.papers.credit.attention_rhythm:PlanAndAnchor":
            known["factor"] = {**factor, "only_positive": when == "positive"}


def _shuffled(known: dict[str, Any]) -> None:
    """The order of the events is a field of the rollout now."""
    if isinstance(rewording := known.pop("rewording", None), dict):
        count = known.pop("count", None)
        known |= {name: value for name, value in rewording.items() if name != "part"}
        if count is not None:
            known["count"] = count


def _majority(known: dict[str, Any]) -> None:
    """The watched reward is a separate part inside this part now."""
    if "missing" in known:
        known["majority"] = {"part": "gradus.rewards.majority:MajorityReward", "missing": known.pop("missing")}


def _cosine(known: dict[str, Any]) -> None:
    """The curves are a separate part inside this part now."""
    if known.pop("characters", False):
        inside = {name: known.pop(name) for name in ("reward", "right", "wrong", "exceeds", "margin") if name in known}
        known["curve"] = {"part": "gradus.rewards.length:CosineLength", **inside}


def _refine(known: dict[str, Any]) -> None:
    """One field now selects between the two conditions for a second attempt."""
    if not (known.get("right") and known.get("better")):
        chosen = [name for name in ("right", "better") if known.pop(name, False)]
        known |= {"only": chosen[0]} if chosen else {}


def _errands(known: dict[str, Any]) -> None:
    """The players of the roles, and the turns of an errand, are fields of the rollout itself. Only a role with a player is learned from."""
    if isinstance(errands := known.get("errands"), dict) and errands.get("trained", False) == bool(errands.get("players", {"map": {}})["map"]):
        del known["errands"]
        known |= {new: errands[old] for old, new in (("players", "roles"), ("max_turns", "errand_turns")) if old in errands}


def _forged(known: dict[str, Any]) -> None:
    """The reward itself now weights the measures and finds the problem."""
    solved = dict(known.get("solved") or {})
    if "weights" in solved:
        known["weights"] = solved.pop("weights")
    if solved.get("within") == "problem":
        del solved["within"]
    known |= {"solved": solved} if solved else {}


def _scored_pair(known: dict[str, Any]) -> None:
    """The template is a field of the form now."""
    if isinstance(scores := known.get("scores"), dict) and scores.get("high", 10) == 10:
        known["template"] = known.pop("scores")["template"]


def _unmasking(known: dict[str, Any]) -> None:
    """The order and the number of the tokens are fields of the rollout now."""
    if isinstance(how := known.pop("how", None), dict):
        known |= {name: value for name, value in how.items() if name != "part"}


def _chance(known: dict[str, Any]) -> None:
    """A judge that reads probabilities writes no texts."""
    for name in ("soft", "samples", "temperature", "max_tokens"):
        known.pop(name, None)


def _heads(known: dict[str, Any]) -> None:
    """The target is a separate part inside this part now."""
    if "subset" in known:
        heads, inside = known.pop("subset"), {name: known.pop(name) for name in tuple(known) if name != "part"}
        known |= {"heads": heads, "rule": {"part": "gradus.credit.bellman:SoftBellman", **inside}}


def _dense(known: dict[str, Any]) -> None:
    """The judge of the checklist is a field of the reward itself now."""
    if isinstance(checklist := known.get("checklist"), dict) and checklist.get("grades", 1) == 1:
        known["judge"] = known.pop("checklist")["judge"]


def _translated(known: dict[str, Any]) -> None:
    """The measure compares the text between the tags of the answer, so it does not choose a part of the answer."""
    if isinstance(quality := known.get("quality"), dict) and (quality.get("of"), quality.get("least")) == ("answer", 0):
        known["quality"] = {"part": "gradus.rewards.overlap:Matches", "measure": quality["measure"]}


def _seats(known: dict[str, Any]) -> None:
    """The players of the seats are the roles of the episodes now."""
    if (players := known.pop("players", {"map": {}})["map"]) and isinstance(play := known.get("play"), dict):
        known["play"] = {**play, "roles": {"map": {**play.get("roles", {"map": {}})["map"], **players}}}


def _revised(known: dict[str, Any]) -> None:
    """Right answers are revised if the best answer is kept."""
    if known.get("until_right") is (known.get("keep") == "latest"):
        del known["until_right"]


def _tools(known: dict[str, Any]) -> None:
    """Without a hint, the first illegal action ends the episode."""
    if not known.pop("lenient", True):
        known["hint"] = None


def _tagged(known: dict[str, Any]) -> None:
    """The tag of the answer is one of the names now."""
    if (end := known.pop("end", "answer")) != "answer":
        known["names"] = [*known.get("names", ()), [end, "answer"]]


MOVES: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "gradus.credit.scaled:Scaled": _scaled,
    "gradus.environments.tools:Tools": _tools,
    "gradus.papers.data.mathsmith:ForgedProblem": _forged,
    "gradus.papers.multi_agent.at_grpo:TurnCandidates": _seats,
    "gradus.papers.rewards.light_if:DenseInstruction": _dense,
    "gradus.papers.rewards.r1_t1:Translated": _translated,
    "gradus.papers.rewards.writing_zero:ScoredPair": _scored_pair,
    "gradus.rollouts.episodes:Episodes": _errands,
    "gradus.rollouts.refine:Refine": _refine,
    "gradus.rollouts.seats:Seats": _seats,
    "gradus.rollouts.unmasking:Unmasking": _unmasking,
    "gradus.search.revised:Revised": _revised,
    "gradus.tools.forms:TaggedCalls": _tagged,
    _CHANCE: _chance,
    _COSINE: _cosine,
    _HEADS: _heads,
    _MAJORITY: _majority,
    _SHUFFLED: _shuffled,
}
"""Class path -> the function that moves the stored fields of the part."""
