"""The trust-region update: conjugate gradients, the Fisher matrix written out, the bound, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.ppo import ppo
from gradus.players.learner import Learner
from gradus.recipe.core import Setting
from gradus.testing.methods import VOCABULARY, BigramPolicy, toy_batch, toy_group, toy_trajectory, train_toy
from gradus.types import Key, UserError
from gradus.types.players import Player
from gradus.types.signals import LogProb
from gradus.updates.minibatches import forward
from gradus.updates.optimizers import AdamW
from gradus.updates.trust_region import Surface, TrustRegion, conjugate_gradient, flat

TERMS = {"policy": PolicyGradient(trust=Unclipped(), average=TokenMean())}


def sampled(dtype=torch.float64, micro=None):
    """A player and a batch of four answers, drawn anywhere, with advantages."""
    rng = np.random.default_rng(0)
    made = [toy_trajectory(rng.integers(1, 8, n).tolist(), name=f"g/{i}") for i, n in enumerate((3, 5, 2, 4))]
    player = Learner("policy", Player(objective=TERMS), BigramPolicy(Key(3), dtype, micro), AdamW(), Setting())
    return player, toy_batch(toy_group(0).but(trajectories=tuple(made)), advantages=[1, -1, 0.5, 2])


def surface(player, made):
    key = Key()
    made = replace(made, old=forward(player.policy, made, (LogProb(),), 0, key))
    return Surface(player, made, torch.ones_like(made.weight), flat(player.parameters), key, player.micro_tokens)


def scores(player, made):
    """[A, parameters] the gradient of every action's log-probability, in closed form: onehot(action) - softmax, in the row of the token before."""
    chances = player.policy.network.logits.detach().softmax(-1)
    rows = []
    for c in made.contexts:
        for at in c.action_positions:
            grad = torch.zeros(VOCABULARY, VOCABULARY, dtype=torch.float64)
            before, token = int(c.sequence[at - 1]), int(c.sequence[at])
            grad[before] -= chances[before]
            grad[before, token] += 1
            rows.append(torch.cat([grad.reshape(-1), torch.zeros(VOCABULARY, dtype=torch.float64)]))
    return torch.stack(rows)


def test_conjugate_gradients_solve_a_small_system():
    rng = np.random.default_rng(1)
    half = torch.from_numpy(rng.normal(size=(6, 6)))
    matrix, b = half @ half.T + 0.1 * torch.eye(6), torch.from_numpy(rng.normal(size=6))
    assert_close(conjugate_gradient(lambda v: matrix @ v, b, iterations=20), torch.linalg.solve(matrix, b))
    once = conjugate_gradient(lambda v: matrix @ v, b, iterations=1)
    assert_close(once, b * b.dot(b) / b.dot(matrix @ b))  # the first step is steepest descent with the best length
    assert conjugate_gradient(lambda v: matrix @ v, torch.zeros(6), iterations=5).tolist() == [0.0] * 6


def test_fisher_products_equal_the_matrix_written_out():
    player, made = sampled()
    here, all_scores = surface(player, made), scores(player, made)
    vector = torch.from_numpy(np.random.default_rng(2).normal(size=72))
    assert_close(here.fisher_product(vector), all_scores.T @ (all_scores @ vector) / 14, rtol=1e-7, atol=1e-10)
    assert torch.equal(flat(player.parameters), here.start)  # and the weights stand where they stood
    assert all(p.grad is None for p in player.parameters)


def test_the_step_is_the_natural_gradient_at_the_bound():
    player, made = sampled()
    all_scores, start = scores(player, made), flat(player.parameters)
    advantage = made.advantages
    ascent = all_scores.T @ advantage / 14
    fisher = all_scores.T @ all_scores / 14 + 0.1 * torch.eye(72)
    direction = torch.linalg.solve(fisher, ascent)
    longest = direction * (2 * 0.001 / direction.dot(fisher @ direction)).sqrt()
    found = TrustRegion(max_kl=0.001, iterations=50, fisher_share=1.0).update(player, made, Key())
    moved = flat(player.parameters) - start
    assert_close(moved, found["update_length"] * longest, rtol=1e-5, atol=1e-8)
    assert player.updates == 1
    assert found["skipped"] == 0


def test_much_damping_leaves_the_plain_gradient():
    player, made = sampled()
    all_scores, start = scores(player, made), flat(player.parameters)
    ascent = all_scores.T @ made.advantages / 14
    TrustRegion(damping=1e6).update(player, made, Key())
    moved = flat(player.parameters) - start
    assert_close(moved / moved.norm(), ascent / ascent.norm(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("max_kl", [1e-4, 0.01, 0.3])
def test_the_bound_holds_and_the_objective_improves(max_kl):
    player, made = sampled()
    before = surface(player, made)
    start_loss = before.at(before.start)[0]
    found = TrustRegion(max_kl=max_kl).update(player, made, Key())
    loss, kl = before.at(flat(player.parameters))
    assert 0 < float(kl) <= max_kl
    assert float(kl) == pytest.approx(found["update_kl"])
    assert float(start_loss - loss) == pytest.approx(found["gain"])
    assert found["gain"] > 0


def test_nothing_to_improve_moves_nothing():
    player, made = sampled()
    start = flat(player.parameters)
    found = TrustRegion().update(player, replace(made, advantages=torch.zeros_like(made.advantages)), Key())
    assert found["skipped"] == 1
    assert player.updates == 0
    assert torch.equal(flat(player.parameters), start)


def test_a_step_that_never_holds_is_not_taken():
    player, made = sampled()
    start = flat(player.parameters)

    class Worse(PolicyGradient):
        def loss(self, outputs, batch):
            total, metrics = super().loss(outputs, batch)
            return total * (1 if outputs[LogProb()].requires_grad else -1), metrics  # the search sees the opposite of the gradient

    player.spec = replace(player.spec, objective={"policy": Worse(trust=Unclipped())})
    assert TrustRegion().update(player, made, Key())["skipped"] == 1
    assert torch.equal(flat(player.parameters), start)


def test_a_share_of_the_answers_makes_the_matrix():
    player, made = sampled()
    whole = surface(player, made)
    assert whole.part(1.0) is whole
    some = whole.part(0.3)  # two of four answers
    ids = torch.unique(some.batch.trajectory).tolist()
    assert len(ids) == 2
    of = torch.isin(made.trajectory, torch.tensor(ids))
    vector = torch.from_numpy(np.random.default_rng(2).normal(size=72))
    mine = scores(player, made)[of]
    assert_close(some.fisher_product(vector), mine.T @ (mine @ vector) / int(of.sum()), rtol=1e-7, atol=1e-10)
    assert torch.unique(whole.part(1e-9).batch.trajectory).numel() == 1
    drawn = {tuple(torch.unique(replace(whole, key=Key(i)).part(0.5).batch.trajectory).tolist()) for i in range(30)}
    assert len(drawn) == 6  # every pair is drawn, by the key alone
    assert torch.equal(whole.part(0.3).batch.trajectory, some.batch.trajectory)


def test_a_share_asks_the_network_for_fewer_answers():
    counts = {}
    for share in (1.0, 0.25):
        player, made = sampled()
        asked = []
        evaluate = player.policy.evaluate
        player.policy.evaluate = lambda contexts, wants, key=None, e=evaluate, a=asked: a.append(len(contexts)) or e(contexts, wants, key=key)
        TrustRegion(max_kl=0.001, fisher_share=share).update(player, made, Key())
        counts[share] = sum(asked)
    # most of the work is products, of four passes each, over four answers or over one; the start, a gradient and the search are over all four
    assert counts[0.25] <= counts[1.0] / 3


def test_given_answers_count_in_neither_matrix_nor_bound():
    player, made = sampled()
    given = toy_trajectory([7, 7, 7], name="e", source="expert")
    everything = toy_batch(toy_group(0).but(trajectories=(*made.trajectories, given)), advantages=[1, -1, 0.5, 2, 3])
    TrustRegion().update(player, everything, Key())
    alone, _ = sampled()
    TrustRegion().update(alone, made, Key())
    assert_close(flat(player.parameters), flat(alone.parameters), rtol=0, atol=1e-9)  # the objective reads the policy's alone


def test_other_players_move_by_their_own_update():
    run = train_toy(ppo.but(update=TrustRegion(others=ppo.update)), steps=2)
    assert [run.players[n].updates for n in ("policy", "critic", "reference")] == [2, 8, 0]
    assert run.metrics[-1]["update_kl"] <= 0.01
    assert run.metrics[-1]["critic/learning_rate"] == 0.05


def test_a_player_that_is_not_there_is_named():
    with pytest.raises(UserError, match='unknown player "polcy"'):
        train_toy(ppo.but(update=TrustRegion(player="polcy")), steps=1)


def test_narrow_weights_are_refused():
    player, made = sampled(torch.bfloat16)
    with pytest.raises(UserError, match="float32"):
        TrustRegion().update(player, made, Key())


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_products_in_float32_are_near_those_in_float64_whatever_the_vector_s_length(scale):
    vector = torch.from_numpy(np.random.default_rng(4).normal(size=72)) * scale
    products = []
    for dtype in (torch.float64, torch.float32):
        player, made = sampled(dtype)
        products.append(surface(player, made).fisher_product(vector.to(dtype)).double())
    assert_close(products[1], products[0], rtol=2e-3, atol=2e-4 * float(products[0].norm()))
