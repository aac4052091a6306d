"""Every part that an objective or a credit rule is made of, found by walking the packages, and instances of each to be tried."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

import gradus.credit
import gradus.objectives
import gradus.papers
from gradus.credit.bellman import NStep
from gradus.credit.clipped import Clipped
from gradus.credit.gae import GAE, LengthAdaptiveGAE
from gradus.credit.groups import BatchBaseline, Constant, GroupRelative, LeaveOneOut, LogReward, PoolBaseline, ProbeBaseline
from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.new_tokens import NewTokens
from gradus.credit.prompt_returns import PromptReturns
from gradus.credit.reward_to_go import RewardToGo
from gradus.credit.scaled import Same, Scaled
from gradus.credit.sharpened import Sharpened
from gradus.credit.uncut import Uncut
from gradus.credit.within import Linked, Within
from gradus.objectives.aggregation import ConstantLength, ConstantTotal, ContextMean, GroupMean, Joint, SequenceMean, SequenceSum, TokenMean
from gradus.objectives.balance import TrajectoryBalance
from gradus.objectives.chances import ChanceLoss
from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.flow_kl import TransitionKL
from gradus.objectives.flow_matching import MatchedPolicy, Robust, Weighted
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.kl import KL, Distillation, SquaredLogRatio
from gradus.objectives.labelled_scores import LabelledScores
from gradus.objectives.preference import Logistic, Preference, Squared
from gradus.objectives.ranking import BradleyTerry, ImitationOfBest, MaxMargin, Ranking
from gradus.objectives.ratios import OnPolicy, Probability, SequenceRatio, SequenceTokenRatio, TokenRatio
from gradus.objectives.regression import LogRatioRegression
from gradus.objectives.scores import LengthDiscounted, LogOdds, LogRatio, MeanLogProb
from gradus.objectives.terms import EntropyBonus, Imitation, PolicyGradient, TruncatedImportance, ValueLoss
from gradus.objectives.trust import CappedWeight, Clip, DualClip, Shaped, Unclipped, WeightedLikelihood
from gradus.papers.agents.aepo import OpenTop
from gradus.papers.agents.epo import KeyOutcomes, KeyReturns
from gradus.papers.agents.gem import TurnReturns
from gradus.papers.agents.prompt_pg import BatchSum
from gradus.papers.bases.kto import Prospect
from gradus.papers.credit.gigpo import AnchorStates
from gradus.papers.credit.ngrpo import VirtualBest
from gradus.papers.credit.oprl import ImplicitSteps
from gradus.papers.credit.stratified_grpo import Blended
from gradus.papers.credit.tempo import PrefixTree
from gradus.papers.data.clpo import ByDifficulty
from gradus.papers.data.pcl import RateError
from gradus.papers.generation.awm import VelocityGap
from gradus.papers.guidance.chord_phi import Likelihood, Undecided
from gradus.papers.guidance.grao import Aligned
from gradus.papers.guidance.kdrl import WrongOnly
from gradus.papers.guidance.mm_helix_ahpo import Guided
from gradus.papers.guidance.rl_plus import AgainstOwn
from gradus.papers.multi_agent.magrpo import JointReturns
from gradus.papers.multimodal.papo import Perception
from gradus.papers.objectives.apo import Divergence
from gradus.papers.objectives.bapo import BalancedClip
from gradus.papers.objectives.capo import CountingClip
from gradus.papers.objectives.copg import PairRegression
from gradus.papers.objectives.deepvideo_r1 import AdvantageRegression
from gradus.papers.objectives.gppo import PreservingClip
from gradus.papers.objectives.group_relative_reinforce import MaskedReinforce
from gradus.papers.objectives.llds import PreserveLikelihood
from gradus.papers.objectives.m2po import SecondMoment, SecondMomentClip
from gradus.papers.objectives.magistral import NormalisedClip
from gradus.papers.objectives.nft import ImplicitNegative, SuccessRate
from gradus.papers.objectives.otr import OneToken
from gradus.papers.objectives.prioritized_kl import CertaintyWeight
from gradus.papers.objectives.sapo import SoftGate
from gradus.papers.rewards.confclip import FlooredRelative
from gradus.papers.rewards.lens import CentredFailures
from gradus.papers.rewards.prime import ImplicitProcess, Outcome
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.papers.rewards.sirl import PartialKL
from gradus.papers.rewards.stable_reinforce import PreClipped, WithinSigma
from gradus.papers.systems.ulorl import MasteredMask
from gradus.types.signals import LogProbs

OF_ROWS = {
    "gradus.objectives.actor_critic": {"TDError", "SoftPolicy", "Temperature", "Conservative"},
    "gradus.credit.bellman": {"SoftBellman", "Bellman", "Expectile"},
    "gradus.papers.control.wsrl": {"SomeHeads"},
}
"""Parts that read rows of transitions under controllers. Worked out by hand in tests/invariance/test_rows.py, tests/credit/test_bellman.py and
tests/papers/control/test_wsrl.py."""
APART = {
    "gradus.objectives.temporal": {"Targets"},
    "gradus.objectives.denoised": {"DenoisedPolicy"},
    "gradus.papers.generation.coupled_grpo": {"DenoisedKL"},
    "gradus.papers.objectives.capo": {"PredictedChange"},
    "gradus.papers.rewards.light_if": {"Covariance"},
    "gradus.papers.rewards.light_if_sft": {"HardImitation"},
    "gradus.objectives.contrastive": {"Contrastive"},
    "gradus.papers.objectives.a_star_po": {"OptimalAdvantage"},
    "gradus.objectives.chances": {"RewardLikelihood"},
    "gradus.papers.objectives.risk_po": {"BundledRisk"},
    "gradus.papers.objectives.rover": {"RandomValuation"},
    "gradus.papers.objectives.shiq": {"PathConsistency"},
    "gradus.papers.credit.archer": {"UtteranceTargets", "UtteranceAdvantage"},
    "gradus.papers.agents.arpo": {"SharedPrefix"},
    "gradus.credit.class_balanced": {"ClassBalanced"},
    "gradus.credit.sampled_only": {"SampledOnly"},
    "gradus.papers.agents.ledex": {"SegmentGAE"},
    "gradus.papers.agents.rex_rag": {"MixtureRatio"},
    "gradus.papers.multi_agent.rema": {"TurnRatio", "TurnMean"},
    "gradus.papers.multi_agent.rl_tango": {"StepVerdicts"},
    "gradus.objectives.ratios": {"JointRatio", "SpanRatio"},
    "gradus.credit.chunks": {"ChunkGAE", "UntilSuccess"},
    "gradus.credit.step_samples": {"HighEntropySteps", "StepRelative"},
    "gradus.objectives.scores": {"TurnMeans"},
    "gradus.credit.step_values": {"CriticAdvantage", "StepChances", "TreeChanges", "ValueChanges"},
    "gradus.papers.credit.attnrl": {"NodeAdvantage"},
    "gradus.papers.credit.hicra": {"Planning"},
    "gradus.papers.credit.aapo": {"AdvantageMomentum"},
    "gradus.papers.credit.barl": {"BayesAdaptive"},
    "gradus.papers.credit.spo_segment": {"SegmentChanges"},
    "gradus.papers.credit.rank_grpo": {"RankRelative"},
    "gradus.objectives.trust": {"EntropyClip"},
    "gradus.papers.guidance.gtr": {"ThoughtWeight"},
    "gradus.papers.guidance.rl_plus": {"TwoPolicies"},
    "gradus.papers.guidance.rlad": {"HintedOnly"},
    "gradus.papers.guidance.thinktuning": {"ShapedFeedback", "StudentRatio"},
    "gradus.papers.thinking.drpo": {"ScoreGap"},
    "gradus.papers.thinking.demystify_long_cot": {"TwoDiscounts"},
    "gradus.papers.thinking.hbpo": {"BudgetAdvantage"},
    "gradus.papers.thinking.anytime_reasoner": {"BudgetRelative"},
    "gradus.papers.thinking.supo": {"Answered"},
}
"""Parts that read heads of several numbers, masks, means over the vocabulary, or shared turns or spans, or have a state: tests/reference/test_apart.py,
test_chunks.py, test_steps.py, test_turns.py, test_lengths.py, test_guided.py and test_last_layer.py have the references. The contract of each
recipe (tests/papers/test_contract.py, rule micro-batches) tests the splits."""
PACKAGES = (gradus.objectives, gradus.credit, gradus.papers)
KINDS = {  # a method, and an argument of it, that tell a kind of part
    "term": ("loss", "outputs"),
    "trust": ("losses", "log_ratio"),
    "link": ("losses", "chosen"),
    "ratio": ("log_ratio", "logprobs"),
    "average": ("coefficients", "batch"),
    "weight": ("factors", "old"),
    "score": ("scores", "logprobs"),
    "likeness": ("logprob", "error"),
    "credit": ("assign", "groups"),
}

TRUSTS = [
    Unclipped(),
    Clip(0.2, 0.28),
    DualClip(0.2, 0.28, 1.4),
    CappedWeight(1.3, 0.7),
    Shaped(0.3),
    SecondMoment(0.04),
    SecondMomentClip(0.02, 0.05, 0.08),
    ImplicitNegative(0.9, 0.2),
    BalancedClip(0.7),
    BalancedClip(0.6, low=0.8, low_max=0.95, low_step=0.05, first="low", counted="clipped"),
    MaskedReinforce(),
    MaskedReinforce("none"),
    MaskedReinforce("two_side", "ratio", low=0.99, high=0.05),
    MaskedReinforce("ring", "advantage", far_low=0.3, far_high=0.4, temperature=2.0),
    SoftGate(1.3, 2.5),
    PreservingClip(0.1, 0.15),
    OpenTop(0.1, 0.15),
    WeightedLikelihood(),
    CountingClip(0.1, 0.15),
    NormalisedClip(0.1, 0.15),
]
AGAINST = ("old", "behaviour")
RATIOS = [made(against) for made in (TokenRatio, SequenceRatio, SequenceTokenRatio) for against in AGAINST] + [Probability(), OnPolicy()]
RATIOS += [PreClipped(0.7, 1.6, against) for against in AGAINST]
ALONE = [TokenMean(), SequenceMean(), SequenceSum(), ContextMean(), GroupMean(), ConstantLength(10), ConstantTotal(20)]
WEIGHTED = [TokenMean("weighted"), SequenceMean("weighted")]
AVERAGES = [*ALONE, *(Joint(a) for a in ALONE if not isinstance(a, ContextMean | GroupMean)), *WEIGHTED]
CERTAINTIES = [CertaintyWeight(2.5), CertaintyWeight(1.5, tau=2.0, certainty="probability")]
WEIGHTS = [TruncatedImportance(1.2), MaskedImportance(1.25), MaskedImportance(2.5, floor=0.6), Likelihood(), Undecided(), *CERTAINTIES, ByDifficulty(), WrongOnly()]
SCORES = [LogRatio(), MeanLogProb(), LogOdds(), LengthDiscounted(alpha=0.3)]
LINKS = [Logistic(), Logistic(0.3), Squared()]
LIKENESSES = [Weighted(0.0), Weighted(1.5), Robust(0.25)]
ESTIMATORS = ("k1", "k2", "k3")

POLICIES = [
    *(PolicyGradient(ratio, trust, average=average) for ratio in RATIOS for trust in TRUSTS for average in AVERAGES),
    *(PolicyGradient(ratio, Clip(), weight, average, coefficient=0.7) for ratio in RATIOS for weight in WEIGHTS for average in AVERAGES[:2]),
    PolicyGradient(source="expert", ratio=Probability(), trust=Shaped(), average=Joint()),
    PolicyGradient(average=BatchSum()),
]
def vanishes(term: Any, rewards: Iterable[float]) -> bool:
    """Whether a term has no gradient, because its weight is that of wrong answers and all answers that it reads are right."""
    return isinstance(getattr(term, "weight", None), WrongOnly) and all(reward > 0 for reward in rewards)


TERMS = [
    *(KL(0.3, estimator, average=average) for estimator in ESTIMATORS for average in AVERAGES),
    *(KL(0.3, average=TokenMean(), weight=weight) for weight in WEIGHTS),
    *(EntropyBonus(0.3, average) for average in AVERAGES),
    *(EntropyBonus(0.3, weight=weight) for weight in WEIGHTS),
    *(ValueLoss(clip, average=average) for clip in (0.2, None) for average in AVERAGES),
    RateError(),
    *(ChanceLoss(average=average) for average in AVERAGES),
    *(Imitation(average, 0.5, source) for source in ("policy", "expert") for average in AVERAGES),
    *(Imitation(weight=weight) for weight in WEIGHTS),
    *(Distillation(direction=direction, average=average) for direction in ("reverse", "forward") for average in AVERAGES),
    *(Distillation(coefficient=0.3, weight=weight) for weight in WEIGHTS),
    SquaredLogRatio(0.3),
    PreserveLikelihood(0.3),
    PreserveLikelihood(0.3, "response", last=0.5),
    ImitateRight(0.4),
    *(ImitationOfBest(average, 0.5) for average in AVERAGES if not isinstance(average, Joint)),
    *(Ranking(score, 0.5) for score in SCORES),
    *(BradleyTerry(margin, 0.5) for margin in (0.0, 0.4)),
    *(MaxMargin(margin, 0.5) for margin in (0.3, 2.0)),
    *(LabelledScores(fit=fit, coefficient=0.5) for fit in ("squared", "squared_chance", "cross_entropy")),
    *(Prospect(0.3, 1.5, 0.8, 0.4, score, 0.5) for score in SCORES),
    Outcome(0.3),
    LogRatioRegression(0.3, coefficient=0.5),
    LogRatioRegression(0.3, player=None),
    LogRatioRegression(0.3, source="expert"),
    PairRegression(0.3, coefficient=0.5, source="policy"),
    PairRegression(0.7, source="policy"),
    TrajectoryBalance(0.5),
    AdvantageRegression(eta=0.7, coefficient=0.5),
    AdvantageRegression("standardised", eps=0.2),
]
VIEWED = [Perception(0.3, 0.2, 0.1, form, constant=constant) for form in ("released", "paper") for constant in (False, True)]
DRAWN = [OneToken(beta=0.2), *(OneToken(None, average=average, coefficient=0.5) for average in AVERAGES), OneToken(source="policy")]
PAIRED = [Preference(0.4, score, link, 0.5) for score in SCORES for link in LINKS]  # for batches of pairs
FLOWING = [
    *(MatchedPolicy(3, likeness, trust, SequenceMean(), 0.5) for likeness in LIKENESSES for trust in TRUSTS),
    *(MatchedPolicy(3, Robust(), Clip(), average) for average in AVERAGES),
    *(VelocityGap(0.3, draws=3, average=average) for average in AVERAGES),
    *(TransitionKL(0.3, average=average) for average in AVERAGES),
]


@dataclass(frozen=True)
class Surprise:
    """-log pi of every action, as a factor of its advantage."""

    only_positive: bool = False

    needs = (LogProbs(),)

    def factors(self, groups, signals):
        return [[-signals[LogProbs()][t.id].astype(np.float64) for t in g.trajectories] for g in groups]


PENALISED = (GroupRelative(), LeaveOneOut(), RewardToGo(0.9), GAE(0.9, 0.8))
SCALES = ("population", "sample", "none")


@dataclass(frozen=True)
class Pieces:
    """The number of contexts as the stratum."""

    def of(self, trajectory):
        return len(trajectory.contexts)


CREDITS = [
    LogReward(1.5, 0.2),
    *(GroupRelative(scale) for scale in SCALES),
    LeaveOneOut(),
    BatchBaseline("mean"),
    BatchBaseline("none"),
    *(BatchRelative(baseline, scale) for baseline in ("group", "others", "batch") for scale in SCALES),
    ProbeBaseline(),
    Constant(),
    *(GAE(0.9, 0.8, whitened) for whitened in (True, False)),
    *(LengthAdaptiveGAE(0.6, 0.9, whitened) for whitened in (True, False)),
    *(RewardToGo(0.9, baseline, whitened) for baseline in ("none", "group", "others") for whitened in (True, False)),
    *(Clipped(rule, 0.5, 2.0) for rule in (GroupRelative(), RewardToGo(0.9))),
    *(WithinSigma(rule, 0.6) for rule in (GroupRelative(), RewardToGo(0.9))),
    *(NStep(n, 0.9) for n in (1, 2, 9)),
    *(Scaled(rule, factor) for rule in (GroupRelative(), GAE(0.9, 0.8)) for factor in (Surprise(), Surprise(only_positive=True), Same(2.0))),
    *(MasteredMask(rule, 0.5, 9.0) for rule in (GroupRelative(), GAE(0.9, 0.8))),
    *(NewTokens(rule, 1) for rule in (GroupRelative(), GAE(0.9, 0.8))),
    *(Uncut(rule) for rule in (GroupRelative(), GAE(0.9, 0.8))),
    *(KLPenalty(rule, 0.3, estimator) for rule in (GroupRelative(), LeaveOneOut(), RewardToGo(0.9), GAE(0.9, 0.8)) for estimator in ESTIMATORS),
    *(PartialKL(RewardToGo(0.9), 0.3, estimator, within=None) for estimator in ESTIMATORS),  # with marks: tests/papers/rewards/test_sirl.py
    *(AnchorStates(0.7, 0.9, scale) for scale in SCALES),
    *(TurnReturns(0.8, normalised) for normalised in (True, False)),
    *(JointReturns(gamma) for gamma in (1.0, 0.8)),
    *(KeyReturns(gamma) for gamma in (1.0, 0.8)),  # with key turns: tests/papers/agents/test_epo.py
    KeyOutcomes(),
    *(Divergence(rule, rate) for rule in (GroupRelative(), RewardToGo(0.9)) for rate in (1.3, math.inf)),
    PoolBaseline(),
    *(AgainstOwn(scale) for scale in SCALES),
    *(Aligned(0.3, 0.7, scale) for scale in SCALES),
    *(Guided(1, scale) for scale in SCALES),
    PromptReturns(),
    Sharpened(),
    Sharpened(LeaveOneOut(), weight=0.3, most=2.0),
    *(SuccessRate(weight, 0.5, 0.1) for weight in ("hard", "deviation", "none")),
    *(PrefixTree(weight, scale) for weight in (0.0, 0.7) for scale in SCALES),
    *(Within(key, rule) for key in (Pieces(), Linked()) for rule in (GroupRelative(), RewardToGo(0.9))),
    *(Blended(key, rule, blend) for key in (Pieces(), Linked()) for rule in (GroupRelative(), RewardToGo(0.9)) for blend in (0.0, 0.7, 1.0)),
    *(VirtualBest(1.5, virtual, scale) for virtual in (0, 2) for scale in SCALES),
    *(FlooredRelative(floor) for floor in (0.0, 0.3)),
    *(CentredFailures(weight) for weight in (0.5, 1.0)),
    *(ImplicitSteps(rule, 0.7, 0.3, scale) for rule in (GroupRelative(), LeaveOneOut()) for scale in SCALES),
    *(ImplicitProcess(0.3, 0.9, 0.8, bound, whitened) for bound in (True, False) for whitened in (True, False)),
]
TRIED: Mapping[str, list[Any]] = {
    "term": [*POLICIES, *TERMS, *PAIRED, *FLOWING, *VIEWED, *DRAWN],
    "trust": TRUSTS,
    "link": LINKS,
    "ratio": RATIOS,
    "average": [*AVERAGES, BatchSum()],
    "weight": WEIGHTS,
    "score": SCORES,
    "likeness": LIKENESSES,
    "credit": CREDITS,
}


@cache
def parts(kind: str) -> tuple[type, ...]:
    """The dataclasses of a kind in all packages, by name."""
    method, argument = KINDS[kind]
    found = {c for c in _classes() if callable(m := getattr(c, method, None)) and argument in inspect.signature(m).parameters}
    return tuple(sorted(found, key=lambda c: c.__qualname__))


def _classes() -> Iterator[type]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            rows = OF_ROWS.get(module.name, set()) | APART.get(module.name, set())
            for found in vars(importlib.import_module(module.name)).values():
                if isinstance(found, type) and is_dataclass(found) and found.__module__ == module.name and found.__name__ not in rows:
                    yield found


def untried(kind: str) -> list[str]:
    """Classes of a kind without an instance, and choices of their fields that no instance makes: what a test should name."""
    tried = TRIED[kind]
    missing = [c.__qualname__ for c in parts(kind) if not any(type(i) is c for i in tried)]
    for made in dict.fromkeys(type(i) for i in tried):
        hints = get_type_hints(made)
        for f in fields(made):
            seen = {getattr(i, f.name) for i in tried if type(i) is made} if _choices(hints[f.name]) else set()
            missing += [f"{made.__qualname__}.{f.name} = {choice!r}" for choice in _choices(hints[f.name]) if choice not in seen]
    return missing


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else (True, False) if hint is bool else ()


def name_of(part: Any) -> str:
    """A part in few words, for the name of a test."""
    text = repr(part)
    return text if len(text) < 60 else f"{text[:57]}..."
