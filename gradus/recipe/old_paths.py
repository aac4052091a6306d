"""Finds the present class paths of parts that older versions stored.

A stored recipe has the class path of each part. A stored state has the class name of its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradus.recipe.old_fields import moved, variant

MODULES = {
    "gradus.credit.bounded": "gradus.credit.clipped",
    "gradus.credit.penalty": "gradus.credit.kl_penalty",
    "gradus.credit.to_go": "gradus.credit.reward_to_go",
    "gradus.curricula.sweep": "gradus.curricula.shuffled_epochs",
    "gradus.environments.frozen_lake": "gradus.tasks.games.lake_environment",
    "gradus.environments.search_qa": "gradus.tasks.text.search_environment",
    "gradus.environments.twenty_questions": "gradus.tasks.games.questions_environment",
    "gradus.objectives.averages": "gradus.objectives.aggregation",
    "gradus.objectives.matching": "gradus.objectives.flow_matching",
    "gradus.objectives.transitions": "gradus.objectives.flow_kl",
    "gradus.recipe": "gradus.recipe.core",
    "gradus.rewards.scored": "gradus.rewards.reward_model",
    "gradus.rollouts.acting": "gradus.rollouts.auto",
    "gradus.rollouts.chunks": "gradus.papers.thinking.delethink",
    "gradus.rollouts.extractors": "gradus.rollouts.experience_extractors",
    "gradus.rollouts.generated": "gradus.rollouts.flow_sampling",
    "gradus.rollouts.given": "gradus.rollouts.demonstrations",
    "gradus.rollouts.greedy": "gradus.rollouts.greedy_baseline",
    "gradus.rollouts.guided": "gradus.rollouts.mixed_policy",
    "gradus.rollouts.library": "gradus.rollouts.experience_library",
    "gradus.rollouts.mismatched": "gradus.rollouts.mismatched_prompts",
    "gradus.rollouts.refill": "gradus.rollouts.dynamic_sampling",
    "gradus.rollouts.sampled_by": "gradus.rollouts.behaviour_policy",
    "gradus.rollouts.samplers": "gradus.types.samplers",
    "gradus.rollouts.single": "gradus.rollouts.single_turn",
    "gradus.schedules.first_steps": "gradus.schedules.warmup",
    "gradus.schedules.steady": "gradus.schedules.constant",
    "gradus.selection.distinct": "gradus.selection.deduplicate",
    "gradus.study.evaluation": "gradus.study.held_out",
    "gradus.updates.restarted": "gradus.updates.reset_weights",
}
"""Module of an older version -> module of the present version."""

PARTS = {
    "gradus.credit.groups:BatchRelative": "gradus.papers.rewards.rlvr_cross_domain:BatchRelative",
    "gradus.credit.bounded:Bounded": "gradus.credit.clipped:Clipped",
    "gradus.credit.penalty:Penalised": "gradus.credit.kl_penalty:KLPenalty",
    "gradus.credit.to_go:ToGo": "gradus.credit.reward_to_go:RewardToGo",
    "gradus.curricula.each_kind:EachKind": "gradus.papers.data.meta_rtl:EachKind",
    "gradus.curricula.sweep:Sweep": "gradus.curricula.shuffled_epochs:ShuffledEpochs",
    "gradus.objectives.denoised:DenoisedKL": "gradus.papers.generation.coupled_grpo:DenoisedKL",
    "gradus.objectives.flow_matching:VelocityGap": "gradus.papers.generation.awm:VelocityGap",
    "gradus.objectives.matching:VelocityGap": "gradus.papers.generation.awm:VelocityGap",
    "gradus.objectives.terms:Policy": "gradus.objectives.terms:PolicyGradient",
    "gradus.papers.credit.aapo:WeightedLikelihood": "gradus.objectives.trust:WeightedLikelihood",
    "gradus.papers.credit.direct_advantage_po:CriticAdvantage": "gradus.credit.step_values:CriticAdvantage",
    "gradus.papers.credit.direct_advantage_po:StepChances": "gradus.credit.step_values:StepChances",
    "gradus.papers.credit.spo_segment:CutPoints": "gradus.types.spans:CutPoints",
    "gradus.papers.credit.spo_segment:TreeChanges": "gradus.credit.step_values:TreeChanges",
    "gradus.papers.credit.sweet_rl:WithAnswers": "gradus.rollouts.privileged:WithAnswers",
    "gradus.papers.credit.thr:HeadGradient": "gradus.types.readers:HeadGradient",
    "gradus.papers.data.codeboost:CuratedClique": "gradus.curricula.dissimilar:CuratedClique",
    "gradus.papers.data.e3_rl4llms:SteadyEntropy": "gradus.schedules.steady_entropy:SteadyEntropy",
    "gradus.papers.data.g1_graphs:ByAnswer": "gradus.rewards.by_answer:ByAnswer",
    "gradus.papers.data.gain_rl:Column": "gradus.curricula.window:Column",
    "gradus.papers.data.gain_rl:WhenSolved": "gradus.curricula.window:WhenSolved",
    "gradus.papers.data.gain_rl:Window": "gradus.curricula.window:Window",
    "gradus.papers.data.gvm_raft:Accepted": "gradus.selection.filters:Accepted",
    "gradus.papers.data.gvm_raft:GradientVariance": "gradus.rollouts.gradient_variance:GradientVariance",
    "gradus.papers.data.loongrl:TwoWay": "gradus.rewards.two_way:TwoWay",
    "gradus.papers.data.loongrl:Without": "gradus.curricula.filtered:Without",
    "gradus.papers.data.modomodo:ByMixture": "gradus.curricula.mixture:ByMixture",
    "gradus.papers.data.pcl:PredictedRates": "gradus.curricula.predicted:PredictedRates",
    "gradus.papers.data.pcl:PromptReturns": "gradus.credit.prompt_returns:PromptReturns",
    "gradus.papers.data.pf_ppo:KeptByRank": "gradus.selection.filters:KeptByRank",
    "gradus.papers.data.reasoning_core:BalancedBatch": "gradus.curricula.filtered:BalancedBatch",
    "gradus.papers.data.reinforce_ada:Balanced": "gradus.selection.filters:Balanced",
    "gradus.papers.data.reinforce_ada:PoolBaseline": "gradus.credit.groups:PoolBaseline",
    "gradus.papers.data.stat:AnswersThatAgree": "gradus.schedules.harvests:AnswersThatAgree",
    "gradus.papers.data.xrpo:Seeded": "gradus.rollouts.seeded:Seeded",
    "gradus.papers.data.xrpo:Sharpened": "gradus.credit.sharpened:Sharpened",
    "gradus.papers.guidance.eag_rl:EntropyClip": "gradus.objectives.trust:EntropyClip",
    "gradus.papers.multi_agent.rl_tango:ClassAware": "gradus.credit.class_balanced:ClassBalanced",
    "gradus.papers.objectives.a_star_po:OptimalValues": "gradus.schedules.harvests:OptimalValues",
    "gradus.papers.objectives.ar_lopti:ByProbability": "gradus.credit.probability:ByProbability",
    "gradus.papers.objectives.flow_of_reasoning:LogReward": "gradus.credit.groups:LogReward",
    "gradus.papers.objectives.flow_of_reasoning:TrajectoryBalance": "gradus.objectives.balance:TrajectoryBalance",
    "gradus.papers.objectives.group_relative_reinforce:BalancedGroups": "gradus.selection.filters:BalancedGroups",
    "gradus.papers.objectives.group_relative_reinforce:SquaredLogRatio": "gradus.objectives.kl:SquaredLogRatio",
    "gradus.papers.objectives.magistral:SameLanguage": "gradus.rewards.language:SameLanguage",
    "gradus.papers.objectives.offline_rl_ld_dpo:LengthDiscounted": "gradus.objectives.scores:LengthDiscounted",
    "gradus.papers.objectives.offline_rl_ld_dpo:RightWrongPair": "gradus.selection.pairs:RightWrongPair",
    "gradus.papers.objectives.q_sharp:RewardLikelihood": "gradus.objectives.chances:RewardLikelihood",
    "gradus.papers.objectives.q_sharp:SwitchedRollIn": "gradus.rollouts.switched:SwitchedRollIn",
    "gradus.papers.rewards.self_verify:SelfVerdicts": "gradus.search.self_verdicts:SelfVerdicts",
    "gradus.papers.search.rest_rl:BoundedUCT": "gradus.search.tree:BoundedUCT",
    "gradus.papers.thinking.anytime_reasoner:Budgets": "gradus.rollouts.exits:Budgets",
    "gradus.rewards.verdicts:ScoredPair": "gradus.papers.rewards.writing_zero:ScoredPair",
    "gradus.rewards.length:GroupLength": "gradus.papers.objectives.kimi_k1_5:GroupLength",
    "gradus.rewards.scored:Scored": "gradus.rewards.reward_model:RewardModel",
    "gradus.rollouts.acting:Acting": "gradus.rollouts.auto:Auto",
    "gradus.rollouts.chunked:Chunked": "gradus.papers.thinking.delethink:Chunked",
    "gradus.rollouts.chunks:Chunks": "gradus.papers.thinking.delethink:Chunked",
    "gradus.rollouts.generated:Generated": "gradus.rollouts.flow_sampling:FlowSampling",
    "gradus.rollouts.given:Given": "gradus.rollouts.demonstrations:Demonstrations",
    "gradus.rollouts.given:GivenPairs": "gradus.rollouts.demonstrations:DemonstratedPairs",
    "gradus.rollouts.greedy:WithGreedy": "gradus.rollouts.greedy_baseline:WithGreedyBaseline",
    "gradus.rollouts.guided:WithSolution": "gradus.rollouts.mixed_policy:MixedPolicy",
    "gradus.rollouts.mismatched:Mismatched": "gradus.rollouts.mismatched_prompts:MismatchedPrompts",
    "gradus.rollouts.refill:Refill": "gradus.rollouts.dynamic_sampling:DynamicSampling",
    "gradus.rollouts.sampled_by:SampledBy": "gradus.rollouts.behaviour_policy:BehaviourPolicy",
    "gradus.rollouts.single:Single": "gradus.rollouts.single_turn:SingleTurn",
    "gradus.schedules.first_steps:FirstSteps": "gradus.schedules.warmup:Warmup",
    "gradus.schedules.steady:Steady": "gradus.schedules.constant:ConstantSchedule",
    "gradus.updates.restarted:Restarted": "gradus.updates.reset_weights:ResetWeights",
}
"""Class path of an older version -> class path of the present version. These are the classes with a new name, and the classes that moved without the rest of
their module.
"""

GONE = {"gradus.recipe.core:Recipe": frozenset({"policy"})}
"""Class path of the present version -> fields of older versions that no code reads any more."""

_NAMES = {old.partition(":")[2]: new.partition(":")[2] for old, new in PARTS.items()}


def part_today(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The stored part `data` with its present class path, without the fields that nothing reads any more, and with moved fields at their present paths."""
    path = variant(path_today(data["part"]), data)
    return {**moved(path, {name: value for name, value in data.items() if name not in GONE.get(path, ())}), "part": path}


def path_today(path: str) -> str:
    """The present path of `module:Name`. Returns a present path unchanged."""
    if path in PARTS:
        return PARTS[path]
    module, _, name = path.partition(":")
    return f"{MODULES.get(module, module)}:{name}"


def class_today(name: str) -> str:
    """The present name of a stateful part's class. `name`: its name in an older version, or its present name."""
    return _NAMES.get(name, name)
