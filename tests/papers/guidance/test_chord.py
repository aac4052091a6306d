"""CHORD: the weight's schedule, the limits mu = 0 and mu = 1, the share of expert answers, and that evaluation is the policy's alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.chord import chord
from gradus.testing.methods import loss_and_gradient, toy_group, train_toy, weights_after
from gradus.types.moments import Moment

IMITATION, POLICY = "objective.imitation.coefficient", "objective.policy.coefficient"
OWN, EXPERT = toy_group(1, 0), toy_group(1, lengths=[3], key="e")
BOTH = [OWN, EXPERT.but(trajectories=tuple(t.but(source="expert") for t in EXPERT.trajectories), aside=True)]
ROWS = [-0.1, -0.2, -0.3, -0.4, -0.5, -1.0, -2.0]  # two own answers of two tokens, an expert answer of three


def mu(recipe: Any, step: int) -> float:
    found, _ = recipe.schedule.at(Moment(step, 1000), recipe)
    share = found.objective["imitation"].coefficient
    assert found.objective["policy"].coefficient == pytest.approx(1 - share)
    return float(share)


def with_share(share: float) -> Any:
    return chord.but(schedule__points=((0, share),), schedule__shape="linear")


def test_mu_of_the_paper() -> None:
    """0.05 + 0.85 (1 + cos(pi t / 200)) / 2: 0.9 at once, half way 0.475, at a quarter 0.05 + 0.425 (1 + 0.7071) = 0.775520, then 0.05."""
    assert [mu(chord, step) for step in (0, 50, 100, 200, 999)] == pytest.approx([0.9, 0.775520, 0.475, 0.05, 0.05], abs=1e-6)


def test_mu_with_a_warm_up() -> None:
    """Peak 0.5, valley 0.02, warm-up 200, decay 400; at 300: 0.02 + 0.24 (1 + cos(pi / 4)) = 0.4297, at 400: 0.26."""
    warm = chord.but(schedule__points=((0, 0.0), (200, 0.5), (600, 0.02)), schedule__shape=("linear", "cosine"))
    assert [mu(warm, step) for step in (0, 100, 200, 300, 400, 600)] == pytest.approx([0.0, 0.25, 0.5, 0.429706, 0.26, 0.02], abs=1e-6)


def test_the_loss_is_the_mixture_of_two_means() -> None:
    """Own answers of 1 and 3 tokens, advantages 1 and -1, mu = 0.25. At ratio 1 the own part is (-1 + 3 x 1) / 4 = 0.5, a mean over 4 tokens (over
    answers it would be 0), the expert's (0.5 + 1 + 2) / 3: L = 0.75 x 0.5 + 0.25 x 3.5 / 3. An own token's slope is 0.75 / 4, an expert's 0.25 / 3."""
    recipe, _ = with_share(0.25).schedule.at(Moment(0, 9), chord)
    uneven = [toy_group(1, 0, lengths=[1, 3]), BOTH[1]]
    loss, gradient, _ = loss_and_gradient(recipe.objective, uneven, ROWS, advantages=[1.0, -1.0, 0.0])
    assert loss == pytest.approx(0.375 + 0.25 * 3.5 / 3)
    assert gradient == pytest.approx([-0.1875, 0.1875, 0.1875, 0.1875, -0.25 / 3, -0.25 / 3, -0.25 / 3])


def test_without_a_share_it_is_grpo_and_with_all_of_it_sft() -> None:
    """GRPO as eq. 2 has it: no KL, and a mean over tokens."""
    plain = grpo.but(objective__kl=None, players__reference=None, objective__policy__average=TokenMean())
    none, base = weights_after(with_share(0.0)), weights_after(plain)
    assert none.keys() == base.keys()
    for name, weight in base.items():
        torch.testing.assert_close(none[name], weight, rtol=0, atol=1e-14)
    for share, terms, rows in ((0.0, plain.objective, slice(0, 4)), (1.0, sft.objective, slice(4, 7))):
        recipe, _ = with_share(share).schedule.at(Moment(0, 9), chord)
        mixed = loss_and_gradient(recipe.objective, BOTH, ROWS, advantages=[1.0, -1.0, 0.0])
        alone = loss_and_gradient(terms, BOTH, ROWS, advantages=[1.0, -1.0, 0.0])
        assert mixed[0] == alone[0]
        assert mixed[1] == alone[1]
        assert any(mixed[1][rows])
        assert not any(g for i, g in enumerate(mixed[1]) if i not in range(*rows.indices(7)))


def test_both_losses_move_the_policy() -> None:
    """The set-up lets the method act: with and without the expert's loss the weights differ, and so they do for two values of mu."""
    found = [weights_after(with_share(share))["policy.logits"] for share in (0.0, 0.5, 1.0)]
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


def test_a_fifth_of_the_answers_is_the_expert_s() -> None:
    """16 own answers (4 problems of 4): 16 x 0.2 / 0.8 = 4 expert answers, each to a problem of its own, which no own answer has."""
    seen: list[Any] = []
    run = train_toy(chord, steps=2, watch=lambda run, row, groups: seen.append((row, groups)))
    for row, groups in seen:
        experts = [g for g in groups if g.aside]
        assert row["beside"] == len(experts) == 4
        assert {t.source for g in experts for t in g.trajectories} == {"expert"}
        problems = [g.trajectories[0].problem.id for g in groups]
        assert len(set(problems)) == len(problems) == 8
        assert row["reward"] == pytest.approx(sum(t.value for g in groups if not g.aside for t in g.trajectories) / 16)
    assert run.players["policy"].updates == 2
