"""What a policy does not open, readers that give wrong rows, views that change actions, weights that cannot be."""

from __future__ import annotations

from tests.bad_input.row import TRAIN, Row
from tests.own_parts import credit

CREDIT = "{train} --credit p.py:Mine"


def rule(read: str, classes: str = "") -> dict[str, str]:
    """p.py with a credit rule that reads a signal."""
    return {
        "p.py": f"""from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.credit.groups import spread
from gradus.types import prompt_context
from gradus.types.readers import AttentionStat, Hidden, LogProbsOf
from gradus.types.signals import LogProb, Read, Signal, Value, Velocity, Viewed, Want

{classes}
@dataclass(frozen=True)
class Mine:
    needs: ClassVar[tuple] = ({read},)

    def assign(self, groups, signals):
        return spread(groups, [g.rewards for g in groups])
"""
    }


MOODY = """@dataclass(frozen=True)
class Mood(Want):
    opens: ClassVar[frozenset] = frozenset({"mood"})

"""
SHORT = """@dataclass(frozen=True)
class Short(Want):
    opens: ClassVar[frozenset] = frozenset({"logprobs"})

    def rows(self, opened, key):
        return opened.logprobs()[1:]

"""
ROWLESS = """@dataclass(frozen=True)
class Rowless(Want):
    pass

"""
RING = """@dataclass(frozen=True)
class Ring(Signal):
    needs = property(lambda self: (Ring(),))
    want = LogProb()

"""
BACKWARDS = """@dataclass(frozen=True)
class Backwards:
    def of(self, context, key):
        return replace(context, tokens=context.tokens[::-1].copy(), chosen=np.ones(len(context.tokens), bool))

"""
LOST = """@dataclass(frozen=True)
class Lost(Signal):
    want = LogProb()

    def seen_by(self, contexts, found, key):
        return contexts[1:]

"""
EACH = "return [[Credited(np.ones(t.actions), weights={}) for t in g.trajectories] for g in groups]"

READINGS: list[Row] = [
    (CREDIT, "credit reads Read of player|has no velocity; a flow generator offers it: use a task for such a policy", rule("Read(reads=Velocity())")),
    (CREDIT, 'has no head:q|a head of this name: players.policy.model=Head(of=Copy("policy"), outputs=("q",))', rule('Read(reads=Value("q"))')),
    (CREDIT, "has no mood; no policy offers it; correct `opens` of the `Want`", rule("Read(reads=Mood())", MOODY)),
    (CREDIT, 'reads Read of player "judge"|add this player to players', rule('Read("judge", reads=Hidden())')),
    (CREDIT, "signals depend on each other in a circle: Ring needs Ring|remove one of these dependencies", rule("Ring()", RING)),
    (CREDIT, "Short.rows (p.py, line|returned a tensor of shape|it must return one row per action", rule("Read(reads=Short())", SHORT)),
    (CREDIT, "Rowless (p.py, line|has no method `rows`; write def rows(self, opened, key)", rule("Read(reads=Rowless())", ROWLESS)),
    (CREDIT, "Backwards.of changed the actions of a context", rule("Read(reads=Viewed(LogProb(), Backwards()))", BACKWARDS)),
    (CREDIT, "Lost.seen_by (p.py, line|returned 3 contexts with|for 4 contexts with|it must return one context per given context", rule("Lost()", LOST)),
    (CREDIT, "`layer` is 99, but the model has the layers 0 to", rule("Read(reads=Hidden(99))")),
    (CREDIT, "`layer` is 7, but the model has the layers 0 to", rule("Read(reads=AttentionStat((7,)))")),
    (CREDIT, "LogProbsOf reads|a context has none; let the rollout write this stream", rule('Read(reads=LogProbsOf("rivals"))')),
    (CREDIT, "float64 array of shape [1] as weights of trajectory|one number per action", credit(EACH.format("np.ones(1)"))),
    (CREDIT, "weights of trajectory|with -1|finite and at least 0", credit(EACH.format("-np.ones(t.actions)"))),
    ("{train} --objective.policy.average TokenMean --objective.policy.average.counted some", "counted|all|weighted"),
    (TRAIN.replace("grpo", "rep_exp") + " --players.start none", 'reads Read of player "start"|add this player to players'),
    (TRAIN.replace("grpo", "rep_exp") + " --reward.ridge 0", "ridge is 0"),
    (TRAIN.replace("grpo", "attention_rhythm") + " --credit.factor.reads.head_share 0.8", "head_share is 0.8"),
]
