"""Signals: each read once, fresh ones again after an update, those that need others after them; gradients by context against autograd."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.recipe.compatibility import signals_of
from gradus.rollouts.single_turn import SingleTurn
from gradus.testing.methods import toy_run
from gradus.training.world import RunWorld
from gradus.types import Context, Group, Key, Problem, Request, UserError, prompt_context
from gradus.types.readers import Hidden
from gradus.types.signals import Entropy, LogProb, LogProbs, Read, Signal, Viewed, Want, needed_first


def begun() -> tuple[RunWorld, list[Group]]:
    world = toy_run(grpo).at(3)[1]
    requests = [Request(Problem(n, "toy", text=n, answer="b"), count=3) for n in "ab"]
    return world, asyncio.run(SingleTurn().run(requests, world))


def move(world: RunWorld, name: str = "policy") -> None:
    """An update of a player: other weights, one more update."""
    with torch.no_grad():
        world.players[name].policy.network.logits.mul_(1.5)
    world.players[name].updates += 1


def read(world: RunWorld, groups: list[Group], *signals: Signal):
    found = asyncio.run(world.signals(groups, signals))
    return [{name: rows.tolist() for name, rows in found[s].items()} for s in signals]


def test_a_fresh_signal_follows_an_update_and_a_plain_one_does_not():
    world, groups = begun()
    signals = (LogProbs(), LogProbs(fresh=True), Entropy(), Entropy(fresh=True), Read(reads=Hidden()), Read(reads=Hidden(), fresh=True))
    before = read(world, groups, *signals)
    spent = world.spent["score"]
    assert read(world, groups, *signals) == before
    assert world.spent["score"] == spent  # nothing is read twice
    move(world)
    after = read(world, groups, *signals)
    for signal, old, new in zip(signals, before, after, strict=True):
        assert (old != new) == signal.fresh, signal
    assert world.spent["score"] == spent * 8 // 5  # the three fresh ones; the plain log-probabilities were never read


def test_another_players_update_reads_nothing_again():
    world, groups = begun()
    read(world, groups, Entropy(fresh=True))
    spent = dict(world.spent)
    move(world, "reference")
    read(world, groups, Entropy(fresh=True))
    assert world.spent == spent


@dataclass(frozen=True)
class Told(Signal):
    """The player's log-probabilities with the number of likely actions, so far as `LogProbs` says, told in the prompt."""

    above: float = -2.0

    @property
    def want(self) -> Want:
        return LogProb()

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player),)

    def seen_by(self, contexts, found, key):
        out = []
        for context, rows in zip(contexts, found[LogProbs(player=self.player)], strict=True):
            likely = int((rows > self.above).sum())
            prompt = prompt_context(np.concatenate([context.prefix, np.full(1, 1 + likely, np.int32)]))
            out.append(replace(context, parent=(prompt, len(prompt.tokens))))
        return out


def test_a_signal_reads_what_another_found():
    world, groups = begun()
    (found,) = read(world, groups, Told("reference"))
    table = world.players["reference"].policy.network.logits.log_softmax(-1).detach().numpy()
    told = set()
    for t in (t for g in groups for t in g.trajectories):
        (context,) = t.contexts
        sequence, at = context.sequence, context.action_positions
        plain = table[sequence[at - 1], sequence[at]]
        likely = int((plain.astype(np.float32) > -2.0).sum())
        told.add(likely)
        due = [table[1 + likely, context.tokens[0]], *plain[1:]]  # the toy model sees one token back
        np.testing.assert_allclose(found[t.id], due, rtol=1e-5)
    assert len(told) > 1


def test_a_recipe_is_asked_for_what_its_signals_need():
    made = grpo.but(objective__kl=None).but(players__reference=None)
    reward = replace(made.reward)
    object.__setattr__(reward, "needs", (Told("nobody"),))
    named = [(seam, type(s).__name__, s.player) for seam, s in signals_of(replace(made, reward=reward)) if seam == "reward"]
    assert named == [("reward", "LogProbs", "nobody"), ("reward", "Told", "nobody")]


@dataclass(frozen=True)
class Ring(Signal):
    left: int = 2

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Ring(left=(self.left - 1) % 3),)


def test_a_circle_of_signals_is_refused():
    with pytest.raises(UserError, match="signals depend on each other in a circle: Ring needs Ring needs Ring needs Ring"):
        needed_first((Ring(),))
    assert needed_first((Told(), LogProbs(), Told())) == (LogProbs(), Told())


@dataclass(frozen=True)
class Lost(Told):
    def seen_by(self, contexts, found, key):
        return contexts[1:]


def test_contexts_that_are_lost_are_named():
    world, groups = begun()
    with pytest.raises(UserError, match=r"Lost\.seen_by .* returned 5 contexts .* for 6 .*actions; it must return one context per given context, in order"):
        read(world, groups, Lost())


@dataclass(frozen=True)
class After:
    """A view that puts one token before the answer."""

    token: int = 3

    def of(self, context: Context, key: Key) -> Context:
        prompt = prompt_context(np.concatenate([context.prefix, np.full(1, self.token, np.int32)]))
        return replace(context, parent=(prompt, len(prompt.tokens)))


def test_a_signal_under_a_view():
    world, groups = begun()
    (found,) = read(world, groups, Read("reference", reads=Viewed(LogProb(), After(3))))
    table = world.players["reference"].policy.network.logits.log_softmax(-1).detach().numpy()
    for t in groups[0].trajectories:
        assert found[t.id][0] == pytest.approx(table[3, t.contexts[0].tokens[0]], rel=1e-5)


def test_gradients_by_context_equal_those_of_autograd():
    world, groups = begun()
    contexts = [c for g in groups for t in g.trajectories for c in t.contexts]
    policy = world.players["policy"].policy
    due = []
    for c in contexts:
        policy.network.zero_grad()
        policy.evaluate([c], (LogProb(),))[LogProb()].sum().backward()
        due.append(policy.network.logits.grad.clone().ravel())
    policy.network.zero_grad()
    norms = asyncio.run(world.gradients(contexts))
    np.testing.assert_allclose(norms, [float(g.norm()) for g in due], rtol=1e-12)
    assert len({round(n, 6) for n in norms}) > 1
    assert policy.network.logits.grad is None  # nothing is left behind
    assert world.spent["gradients"] == sum(len(c.sequence) for c in contexts)
    few = asyncio.run(world.gradients(contexts, project=4))
    assert few.shape == (len(contexts), 4)
    whole = asyncio.run(world.gradients(contexts, project=20_000))
    inner = np.array([[float(a @ b) for b in due] for a in due])
    np.testing.assert_allclose(whole @ whole.T, inner, atol=0.05 * inner.max())  # hardly two of 72 numbers share one of 20,000 sums
    other = toy_run(grpo).at(5)[1]
    np.testing.assert_array_equal(asyncio.run(other.gradients(contexts, project=4)), few)  # the same projection at every step


def test_projections_keep_inner_products_in_expectation():
    from gradus.training.readings import _places

    a, b = Key(1).normal(50), Key(2).normal(50)
    products = []
    for seed in range(4000):
        bucket, sign = _places(50, 5, Key(seed))
        products.append(float(np.bincount(bucket, sign * a, 5) @ np.bincount(bucket, sign * b, 5)))
    assert np.mean(products) == pytest.approx(float(a @ b), abs=4 * np.std(products) / 4000**0.5)


def test_a_player_that_does_not_learn_has_no_gradients():
    world, groups = begun()
    with pytest.raises(UserError, match="reference, but this player has no trained parameter; name a player that learns"):
        asyncio.run(world.gradients(list(groups[0].trajectories[0].contexts), player="reference"))
