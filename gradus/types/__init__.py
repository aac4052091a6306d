"""The types that all folders share: records, outputs of models (`Signal`, `Want`), the protocols of the parts, keyed draws.

The folder `types` imports no other folder of gradus. Python code that imports only `gradus.types` does not import torch.
"""

from gradus.types.contexts import Context, Ended, Seen, following, prompt_context, told_context
from gradus.types.errors import UserError, command, nearest, unknown
from gradus.types.frozen import Frozen
from gradus.types.keys import Key, mix, uniforms
from gradus.types.media import Media
from gradus.types.records import (
    NOT_APPLICABLE,
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
    "Media",
    "Message",
    "NotApplicable",
    "Outcome",
    "Problem",
    "Request",
    "Sampling",
    "Seen",
    "Trajectory",
    "UserError",
    "command",
    "following",
    "mix",
    "nearest",
    "prompt_context",
    "told_context",
    "uniforms",
    "unknown",
    "without_aside",
]
