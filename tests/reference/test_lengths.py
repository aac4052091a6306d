"""Parts of methods for shorter answers against plain loops over Python's floats."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.papers.thinking.anytime_reasoner import BudgetRelative
from gradus.papers.thinking.demystify_long_cot import TwoDiscounts
from gradus.papers.thinking.drpo import ScoreGap
from gradus.papers.thinking.hbpo import BudgetAdvantage
from gradus.papers.thinking.supo import Answered
from gradus.testing.methods import toy_trajectory
from gradus.types import Frozen, Group
from gradus.types.signals import LogProb, Values
from tests.parts import name_of
from tests.reference.given import MIXED, Row, batch_of, rows_of, tensor, weighed

SHAPE = [[s for s in group if s[0] == "policy"] for group in MIXED if any(s[0] == "policy" for s in group)]
GAPS = [ScoreGap(most=3, beta=0), ScoreGap(lam=0.5, most=2, tau=0.7, beta=3.0, delta=0.01), ScoreGap(beta=2.0, delta=5.0)]
BUDGETS = [BudgetRelative(), BudgetRelative("linear", "group"), BudgetRelative("base", discount=3.0)]
STREAMS = [TwoDiscounts(0.9, 0.5, whitened=whitened) for whitened in (True, False)]
PARTS_OF_LENGTHS = [*GAPS, *BUDGETS, *STREAMS, BudgetAdvantage(), Answered()]


def slow_gap(term: ScoreGap, rows: list[Row], now: list[float]) -> float:
    total, groups = 0.0, {r.group for r in rows}
    for g in groups:
        answers: dict[tuple[int, bool], list[float]] = {}
        for r, value in zip(rows, now, strict=True):
            if r.group == g:
                answers.setdefault((r.trajectory, r.reward >= 1), []).append(value)
        scores = {key: sum(v) / len(v) for key, v in answers.items()}
        right = {key: math.exp((1 - len(answers[key]) / term.most) / term.lam) for key in answers if key[1]}
        wrong = [scores[key] for key in answers if not key[1]]
        if right and wrong:
            total += sum(w * scores[key] for key, w in right.items()) / sum(right.values())
            total -= term.tau * math.log(sum(math.exp(s / term.tau) for s in wrong))
    excess = max(0.0, sum(r.old + 0.3 - value for r, value in zip(rows, now, strict=True)) / len(rows) - term.delta)
    return term.beta / 2 * excess**2 - total / len(groups)


@pytest.mark.parametrize("term", GAPS, ids=name_of)
def test_the_loss_and_its_gradient(term: ScoreGap) -> None:
    rows = weighed(rows_of(SHAPE, 3))
    batch = batch_of(rows)
    batch = replace(batch, old={LogProb(): tensor(r.old + 0.3 for r in rows)})
    now = tensor(r.now for r in rows).requires_grad_()
    loss, _ = term.loss({LogProb(): now}, batch)
    held = [r.now for r in rows]
    assert_close(loss.item(), slow_gap(term, rows, held), rtol=1e-10, atol=1e-12)
    loss.backward()
    assert now.grad is not None
    for i, r in enumerate(rows):
        lifted, lowered = ([v + (d if j == i else 0) for j, v in enumerate(held)] for d in (1e-5, -1e-5))
        slope = (slow_gap(term, rows, lifted) - slow_gap(term, rows, lowered)) / 2e-5
        assert_close(now.grad[i], torch.tensor(slope * r.weighs, dtype=torch.float64), rtol=1e-5, atol=1e-8)


def answers(rewards: list[float], links: list[dict[str, object]], actions: list[int]) -> Group:
    made = [toy_trajectory([2] * n, reward=r, name=f"t{i}").but(links=Frozen(link)) for i, (r, link, n) in enumerate(zip(rewards, links, actions, strict=True))]
    return Group("g", tuple(made))


def test_advantages_of_budgets() -> None:
    draw = random.Random(3)
    budgets = [2, 2, 4, 4, 4, 8]
    rewards, best = [draw.uniform(-1, 1) for _ in budgets], {b: draw.uniform(0.5, 1) for b in budgets}
    group = answers(rewards, [{"budget": b} for b in budgets], [2] * 6)
    group = group.but(trajectories=tuple(t.but(components=Frozen(budget_value=best[b])) for t, b in zip(group.trajectories, budgets, strict=True)))
    mean = sum(rewards) / 6
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rewards) / 6)
    (found,) = BudgetAdvantage().assign([group], {})
    for r, b, credited in zip(rewards, budgets, found, strict=True):
        own = [x for x, c in zip(rewards, budgets, strict=True) if c == b]
        assert credited.advantages.tolist() == pytest.approx([sum(own) / len(own) - best[b] + (r - mean) / deviation] * 2)


@pytest.mark.parametrize("rule", BUDGETS, ids=name_of)
def test_advantages_of_cuts(rule: BudgetRelative) -> None:
    draw = random.Random(4)
    cuts, thoughts = (1, 3, 4), 3
    scores = [[[draw.randint(0, 1) for _ in range(2)] for _ in cuts] for _ in range(thoughts)]
    prior = {"uniform": [1 / 3] * 3, "linear": [1 / 6, 2 / 6, 3 / 6], "base": [0, 0, 1]}[rule.prior]
    r = [[sum(row) / 2 for row in thought] for thought in scores]
    rewards, links, actions, due = [], [], [], []
    for g in range(thoughts):
        for j, row in enumerate(scores[g]):
            for score in row:
                rewards.append(float(score))
                links.append({"trace": g, "exit": j, "cuts": cuts})
                actions.append(2)
                due.append([score - r[g][j]] * 2)
        tokens = []
        for token in range(4):
            s = sum(cut <= token for cut in cuts)
            returns = [sum(prior[j] * r[h][j] for j in range(s, 3)) for h in range(thoughts)]
            past = sum(rule.discount**j for j in range(s))
            own = sum(rule.discount**j * r[g][j] for j in range(s)) / past * sum(prior[s:]) if s else 0.0
            share = s / 3 if rule.baseline == "both" else 0.0
            tokens.append(returns[g] - share * own - (1 - share) * sum(returns) / thoughts)
        rewards.append(0.0)
        links.append({"trace": g, "exit": 3, "cuts": cuts})
        actions.append(4)
        due.append(tokens)
    (found,) = rule.assign([answers(rewards, links, actions)], {})
    for credited, expected in zip(found, due, strict=True):
        assert credited.advantages.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("rule", STREAMS, ids=name_of)
def test_advantages_of_two_sums(rule: TwoDiscounts) -> None:
    draw = random.Random(5)
    made, due, targets, values = [], [], [], {}
    for i, length in enumerate((3, 5, 1)):
        placed = [(draw.randrange(length), name, draw.uniform(-1, 0)) for name in ("repetition", "kl", "other")]
        total = draw.uniform(-1, 1)
        (t,) = answers([total], [{}], [length]).trajectories
        made.append(t.but(id=f"t{i}", contexts=(replace(t.contexts[0], rewards=tuple(placed)),)))
        values[f"t{i}"] = np.array([draw.uniform(-1, 1) for _ in range(length)])
        share = {"repetition": 1.0, "kl": 0.5, "other": 0.0}
        near = [sum(share[n] * v for a, n, v in placed if a == k) for k in range(length)]
        far = [sum((1 - share[n]) * v for a, n, v in placed if a == k) for k in range(length)]
        far[-1] += total - sum(near) - sum(far)
        returns = [sum(rule.gamma ** (s - k) * far[s] + rule.gamma_near ** (s - k) * near[s] for s in range(k, length)) for k in range(length)]
        targets.append(returns)
        due.append([g - v for g, v in zip(returns, values[f"t{i}"], strict=True)])
    if rule.whitened:
        flat = [a for row in due for a in row]
        mean = sum(flat) / len(flat)
        deviation = math.sqrt(sum((a - mean) ** 2 for a in flat) / len(flat))
        due = [[(a - mean) / deviation for a in row] for row in due]
    (found,) = rule.assign([Group("g", tuple(made))], {Values(player="critic"): values})
    for credited, advantages, returns in zip(found, due, targets, strict=True):
        assert credited.advantages.tolist() == pytest.approx(advantages)
        assert credited.returns is not None
        assert credited.returns.tolist() == pytest.approx(returns)


def test_weights_of_answered_rollouts() -> None:
    ends: list[dict[str, object]] = [{"unfinished": True}, {"unfinished": False}, {}, {"unfinished": True}]
    group = answers([1.0, 0.0, 1.0, 0.5], ends, [2] * 4)
    (found,), (plain,) = Answered().assign([group], {}), GroupRelative().assign([group], {})
    for end, credited, base in zip(ends, found, plain, strict=True):
        assert credited.advantages.tolist() == base.advantages.tolist()
        assert (None if credited.weights is None else credited.weights.tolist()) == ([0.0, 0.0] if end.get("unfinished") else None)
