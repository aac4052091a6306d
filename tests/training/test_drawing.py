"""Samples by token rules in the world of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gradus.policies import lockstep
from gradus.policies.lm import LanguageModel
from gradus.rollouts.token_rules import Banned, Delta, GuidedByQ, Less, MixtureOfModels
from gradus.testing.methods import ScriptedPolicy
from gradus.training.drawing import drawn
from gradus.types import Frozen, Key, Request, Sampling, UserError
from gradus.types.records import Problem
from gradus.types.samplers import Drawing
from tests.small_model import save_small_model

PROBLEM = Problem("p", "t", text="ab")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: LanguageModel.load(save_small_model(folder / name, seed)) for seed, name in enumerate(("policy", "second"))}


def asks(model, *hows):
    parent = model.opening("ab")
    sampling = Sampling(max_tokens=6)
    return [
        SimpleNamespace(parent=parent, at=len(parent.sequence), sampling=sampling, key=Key(i), version=0, request=Request(PROBLEM, how=how))
        for i, how in enumerate(hows)
    ]


def players(models):
    return {name: SimpleNamespace(policy=model) for name, model in models.items()}


def test_requests_with_and_without_a_rule_keep_their_order(models):
    rule, other = Delta("second", "policy", 0.0), Banned(sequences=((5,),))
    plain = models["policy"].act(asks(models["policy"], None, None, None))
    mixed = drawn(players(models), "policy", asks(models["policy"], rule, None, other))
    assert [c.tokens.tolist() for c in mixed[:2]] == [c.tokens.tolist() for c in plain[:2]]
    assert 5 not in mixed[2].tokens


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Delta("secnd", "policy"), r'unknown player "secnd" \(did you mean second'),
        (Delta("second", "policy", base="second"), "but the first player of this rule is second"),
        (GuidedByQ("second"), r'reads the head "q" of player second over the vocabulary, but this player has no such head; give the player model=Head'),
    ],
)
def test_players_that_do_not_fit_are_refused(models, rule, said):
    with pytest.raises(UserError, match=said):
        drawn(players(models), "policy", asks(models["policy"], rule))


def test_other_kinds_of_players_are_refused(models):
    held = {**players(models), "second": SimpleNamespace(policy=ScriptedPolicy(lambda ask: "x"))}
    with pytest.raises(UserError, match="ScriptedPolicy gives no logits"):
        drawn(held, "policy", asks(models["policy"], Delta("second", "policy")))


def test_a_language_model_refuses_a_how_that_it_does_not_know(models):
    with pytest.raises(UserError, match="a language model cannot sample by Drawing"):
        models["policy"].act(asks(models["policy"], Drawing()))


def test_a_model_with_another_vocabulary_is_refused(models):
    wide = models["second"].clone()
    wide.trunk.config = SimpleNamespace(vocab_size=7)
    with pytest.raises(UserError, match="take models with the same tokenizer"):
        drawn({**players(models), "second": SimpleNamespace(policy=wide)}, "policy", asks(models["policy"], Delta("second", "policy")))


def test_rules_that_are_alike_are_drawn_together_and_give_the_same_samples(models, monkeypatch):
    calls, act = [], lockstep.act_by_rule
    monkeypatch.setattr(lockstep, "act_by_rule", lambda some, *rest: calls.append(len(some)) or act(some, *rest))
    rules = [MixtureOfModels(Frozen(policy=1 - w, second=w)) for w in (0.0, 0.25, 0.5, 1.0)]
    made = drawn(players(models), "policy", asks(models["policy"], *rules))
    assert calls == [4]
    for i, rule in enumerate(rules):
        alone = drawn(players(models), "policy", asks(models["policy"], *[rule] * 4))
        assert made[i].tokens.tolist() == alone[i].tokens.tolist()
    prompts = [tuple(models["policy"].opening(text).tokens.tolist()) for text in ("a", "ba")]
    each = drawn(players(models), "policy", asks(models["policy"], *(Less("second", prompt=p) for p in prompts)))
    for i, prompt in enumerate(prompts):
        alone = drawn(players(models), "policy", asks(models["policy"], *[Less("second", prompt=prompt)] * 2))
        assert each[i].tokens.tolist() == alone[i].tokens.tolist()
    with pytest.raises(UserError, match="exceed the context of"):
        drawn(players(models), "policy", asks(models["policy"], Less("second", prompt=(5,) * 10_000)))
