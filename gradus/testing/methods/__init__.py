"""Tools for people who write methods: toy policies, toy tasks, runs of two steps, records written by hand, scripted answers, and checks.

>>> from gradus import load_recipe
>>> from gradus.testing.methods import check_micro_batches, train_toy
>>> run = train_toy(load_recipe("grpo"), steps=2)
>>> len(run.metrics)
2
>>> check_micro_batches(load_recipe("grpo"))
"""

from gradus.testing.methods.compare import check_bound_acts, check_different_update, check_learns, check_micro_batches, check_same_update
from gradus.testing.methods.contract import check_method, method_rules
from gradus.testing.methods.diagnosis import Fault, diagnose
from gradus.testing.methods.flow import FLOW_CONFIG, ToyFlow, flow_ask, toy_flow
from gradus.testing.methods.masked import MASKED_CONFIG, ToyMasked, masked_ask, toy_masked
from gradus.testing.methods.policy import END, VOCABULARY, Bigram, BigramPolicy
from gradus.testing.methods.records import (
    REFERENCE,
    advantages_of,
    loss_and_gradient,
    toy_batch,
    toy_group,
    toy_trajectory,
    trained_trajectories,
)
from gradus.testing.methods.resume import MemoryCheckpoint, check_resumes, resumed, stopped_after, stored_state
from gradus.testing.methods.runs import PlainDescent, steps_of, toy_run, train_toy, weights_after, with_plain_descent
from gradus.testing.methods.scripted import (
    OTHER_A,
    ScriptedPolicy,
    character_tokens,
    follow_demonstration,
    readable,
    scripted_context,
    scripted_world,
    turn_of,
)
from gradus.testing.methods.tasks import TOY, TOY_EPISODES, TOY_PAIRS, Corridor, ToySource, toy_task

__all__ = [
    "END",
    "FLOW_CONFIG",
    "MASKED_CONFIG",
    "OTHER_A",
    "REFERENCE",
    "TOY",
    "TOY_EPISODES",
    "TOY_PAIRS",
    "VOCABULARY",
    "Bigram",
    "BigramPolicy",
    "Corridor",
    "Fault",
    "MemoryCheckpoint",
    "PlainDescent",
    "ScriptedPolicy",
    "ToyFlow",
    "ToyMasked",
    "ToySource",
    "advantages_of",
    "character_tokens",
    "check_bound_acts",
    "check_different_update",
    "check_learns",
    "check_method",
    "check_micro_batches",
    "check_resumes",
    "check_same_update",
    "diagnose",
    "flow_ask",
    "follow_demonstration",
    "loss_and_gradient",
    "masked_ask",
    "method_rules",
    "readable",
    "resumed",
    "scripted_context",
    "scripted_world",
    "steps_of",
    "stopped_after",
    "stored_state",
    "toy_batch",
    "toy_flow",
    "toy_group",
    "toy_masked",
    "toy_run",
    "toy_task",
    "toy_trajectory",
    "train_toy",
    "trained_trajectories",
    "turn_of",
    "weights_after",
    "with_plain_descent",
]
