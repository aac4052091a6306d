"""Credit rules and a ratio that read turns and the steps of a chunk, against plain loops over Python's floats, on episodes drawn at random."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.chunks import ChunkGAE, UntilSuccess
from gradus.credit.groups import GroupRelative
from gradus.credit.step_samples import ENTROPIES, HighEntropySteps, StepRelative
from gradus.objectives.ratios import JointRatio
from gradus.types import Context, Ended, Frozen, Group, Problem, Trajectory
from gradus.types.batch import make_batch
from gradus.types.control import EndValues
from gradus.types.signals import Values
from tests.parts import name_of

VALUES, END = Values(player="critic"), EndValues(player="critic")
GAES = [ChunkGAE(gamma, 0.8, level, white) for gamma in (1.0, 0.9) for level in ("action", "chunk") for white in (True, False)]
MASKS = [UntilSuccess(GroupRelative(), level) for level in ("action", "chunk")]
SAMPLES = [StepRelative(), StepRelative("sample"), HighEntropySteps(StepRelative(), 0.6), HighEntropySteps(GroupRelative(), 0.8)]
RULES_OF_CHUNKS = [*GAES, *MASKS, *SAMPLES]
RATIOS_OF_CHUNKS = [JointRatio(of, against) for of in ("turn", "step") for against in ("old", "behaviour")]


@dataclass
class Token:
    """A token of an episode: its turn, its step (-1: not executed), the reward at the token, its value, and its entropy."""

    turn: int
    step: int
    reward: float
    value: float
    entropy: float


def drawn(seed: int) -> list[list[list[Token]]]:
    """Three groups of three episodes of one to four chunks, of up to three steps of one or two tokens; the last chunk may be cut."""
    draw = random.Random(seed)
    groups = []
    for _ in range(3):
        episodes = []
        for _ in range(3):
            chunks, tokens = draw.randint(1, 4), list[Token]()
            for turn in range(chunks):
                steps, size = draw.randint(1, 3), draw.randint(1, 2)
                executed = draw.randint(1, steps) if turn == chunks - 1 else steps
                for k in range(steps):
                    for m in range(size):
                        earns = k < executed and m == size - 1
                        reward = draw.choice([0.0, 0.0, 0.5, 1.0]) if earns else 0.0
                        tokens.append(Token(turn, k if k < executed else -1, reward, draw.uniform(-1, 1), draw.uniform(0, 2)))
            episodes.append(tokens)
        groups.append(episodes)
    return groups


def records(given: list[list[list[Token]]]) -> tuple[list[Group], dict[Any, Any]]:
    """The same as the library's records, and its signals."""
    groups, values, entropies = [], {}, {}
    for g, episodes in enumerate(given):
        made = []
        for i, tokens in enumerate(episodes):
            turn, step = (np.array([getattr(t, name) for t in tokens], np.int32) for name in ("turn", "step"))
            rewards = tuple((at, "environment", t.reward) for at, t in enumerate(tokens) if t.reward)
            streams = Frozen[np.ndarray](turn=turn, step=step, state=turn.astype(np.int64))
            context = Context(np.zeros(len(tokens), np.int32), np.ones(len(tokens), bool), rewards=rewards, streams=streams)
            name = f"{g}/{i}"
            made.append(Trajectory(name, Problem("p", "toy"), (context,), reward=math.fsum(t.reward for t in tokens), ended=Ended.ENVIRONMENT))
            values[name], entropies[name] = np.array([t.value for t in tokens]), np.array([t.entropy for t in tokens])
        groups.append(Group(str(g), tuple(made)))
    return groups, {VALUES: values, END: {}, ENTROPIES: entropies}


def units(tokens: list[Token], level: str) -> list[list[int]]:
    """The tokens of every executed action, or of every chunk, in order."""
    found: dict[Any, list[int]] = {}
    for at, token in enumerate(tokens):
        if level == "chunk" or token.step >= 0:
            found.setdefault(token.turn if level == "chunk" else (token.turn, token.step), []).append(at)
    return list(found.values())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", GAES, ids=name_of)
def test_gae_of_chunks(rule: ChunkGAE, seed: int) -> None:
    given = drawn(seed)
    groups, signals = records(given)
    plain: list[tuple[list[Token], list[list[int]], list[float], list[float]]] = []
    for tokens in (t for episodes in given for t in episodes):
        parts = units(tokens, rule.level)
        firsts = [tokens[p[0]].value for p in parts]
        earned = [math.fsum(tokens[at].reward for at in p) for p in parts]
        rows = []
        for t in range(len(parts)):
            errors = [earned[k] + rule.gamma * (firsts[k + 1] if k + 1 < len(parts) else 0.0) - firsts[k] for k in range(t, len(parts))]
            rows.append(math.fsum((rule.gamma * rule.lam) ** j * e for j, e in enumerate(errors)))
        plain.append((tokens, parts, rows, firsts))
    everything = [a for _, _, rows, _ in plain for a in rows]
    mean = math.fsum(everything) / len(everything)
    unit = math.sqrt(math.fsum((a - mean) ** 2 for a in everything) / len(everything))
    found = iter(c for row in rule.assign(groups, signals) for c in row)
    for tokens, parts, rows, firsts in plain:
        advantages, returns = [0.0] * len(tokens), [t.value for t in tokens]
        for part, a, first in zip(parts, rows, firsts, strict=True):
            for at in part:
                advantages[at], returns[at] = ((a - mean) / unit if rule.whitened else a), a + first
        one = next(found)
        assert one.advantages.tolist() == pytest.approx(advantages)
        assert one.returns is not None
        assert one.returns.tolist() == pytest.approx(returns)
        inside = [float(any(at in part for part in parts)) for at in range(len(tokens))]
        assert ([1.0] * len(tokens) if one.weights is None else one.weights.tolist()) == inside


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", MASKS, ids=name_of)
def test_masks_after_success(rule: UntilSuccess, seed: int) -> None:
    given = drawn(seed)
    groups, signals = records(given)
    found = iter(c for row in rule.assign(groups, signals) for c in row)
    cut = 0
    for tokens in (t for episodes in given for t in episodes):
        kept, over = set[int](), False
        for part in units(tokens, rule.level):
            kept |= set() if over else set(part)
            over = over or math.fsum(tokens[at].reward for at in part) >= 1
        credited = next(found)
        assert credited.weights is not None
        weights = credited.weights.tolist()
        assert weights == [float(at in kept) for at in range(len(tokens))]
        cut += weights.count(0.0)
    assert cut > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", SAMPLES, ids=name_of)
def test_credit_over_steps(rule: Any, seed: int) -> None:
    given = drawn(seed)
    groups, signals = records(given)
    inner = getattr(rule, "rule", rule)
    for episodes, row in zip(given, rule.assign(groups, signals), strict=True):
        counts = [len(units(tokens, "chunk")) if isinstance(inner, StepRelative) else 1 for tokens in episodes]
        totals = [math.fsum(t.reward for t in tokens) for tokens in episodes]
        size = sum(counts)
        mean = math.fsum(r * n for r, n in zip(totals, counts, strict=True)) / size
        square = math.fsum(n * (r - mean) ** 2 for r, n in zip(totals, counts, strict=True))
        unit = math.sqrt(square / (size - 1 if inner.scale == "sample" else size))
        means = [[math.fsum(tokens[at].entropy for at in p) / len(p) for p in units(tokens, "chunk")] for tokens in episodes]
        ordered = sorted(m for one in means for m in one)
        place = (1 - getattr(rule, "top", 1.0)) * (len(ordered) - 1)
        low = ordered[math.floor(place)]
        bound = low + (place - math.floor(place)) * (ordered[math.ceil(place)] - low)
        for tokens, total, one, credited in zip(episodes, totals, means, row, strict=True):
            assert credited.advantages.tolist() == pytest.approx([(total - mean) / unit if unit else 0.0] * len(tokens))
            if rule is not inner:
                assert credited.weights.tolist() == [float(one[t.turn] >= bound) for t in tokens]


@pytest.mark.parametrize("ratio", RATIOS_OF_CHUNKS, ids=name_of)
def test_joint_ratios(ratio: JointRatio) -> None:
    given, draw = drawn(5), random.Random(7)
    groups, _ = records(given)
    rows = [(g, i, t) for g, episodes in enumerate(given) for i, tokens in enumerate(episodes) for t in tokens]
    made = [g.but(trajectories=tuple(t.but(advantages=np.ones(t.actions)) for t in g.trajectories)) for g in groups]
    batch = make_batch(made, dtype=torch.float64)
    old, behaviour = (torch.tensor([draw.uniform(-2, 0) for _ in rows], dtype=torch.float64) for _ in range(2))
    batch.behaviour_logprobs[:] = behaviour
    now = torch.tensor([draw.uniform(-2, 0) for _ in rows], dtype=torch.float64, requires_grad=True)
    found = ratio.log_ratio(now, old, batch)
    names = [(g, i, t.turn, *((t.step,) if ratio.of == "step" else ())) for g, i, t in rows]
    logs = (now.detach() - (behaviour if ratio.against == "behaviour" else old)).tolist()
    due = [math.fsum(x for x, other in zip(logs, names, strict=True) if other == name) for name in names]
    assert_close(found.detach(), torch.tensor(due, dtype=torch.float64))
    pull = torch.tensor([draw.uniform(-1, 1) for _ in rows], dtype=torch.float64)
    found.backward(pull)
    slopes = [math.fsum(float(p) for p, other in zip(pull, names, strict=True) if other == name) for name in names]
    assert now.grad is not None
    assert_close(now.grad, torch.tensor(slopes, dtype=torch.float64))
