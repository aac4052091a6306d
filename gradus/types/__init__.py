"""Records, signals and wants, protocols of the parts, keyed draws. Imports no other folder of gradus, and no torch."""

from gradus.types.errors import UserError, command, nearest, unknown
from gradus.types.frozen import Frozen
from gradus.types.keys import Key, mix, uniforms
from gradus.types.records import (
    NOT_APPLICABLE,
    Context,
    Ended,
    Failed,
    FailureKind,
    Group,
    Message,
    NotApplicable,
    Outcome,
    Problem,
    Request,
    Sampling,
    Trajectory,
    prompt_context,
    without_aside,
)

__all__ = [
    "NOT_APPLICABLE",
    "Context",
    "Ended",
    "Failed",
    "FailureKind",
    "Frozen",
    "Group",
    "Key",
    "Message",
    "NotApplicable",
    "Outcome",
    "Problem",
    "Request",
    "Sampling",
    "Trajectory",
    "UserError",
    "command",
    "mix",
    "nearest",
    "prompt_context",
    "uniforms",
    "unknown",
    "without_aside",
]
