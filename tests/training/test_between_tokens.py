"""Weights that change between two tokens: the same draws under the same weights, versions per token, repetition from the diary, refusals."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gradus.policies.lm import LanguageModel
from gradus.training.between_tokens import Changing, Diary
from gradus.types import Context, Ended, Key, Sampling, UserError
from gradus.types.signals import LogProb
from tests.small_model import save_small_model


@dataclass(frozen=True)
class Ask:
    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 0
    request: Any = None


class Publisher:
    """Publishes the next version after each of these numbers of questions for the newest version."""

    def __init__(self, versions, *after):
        self.versions, self.after, self.asked = versions, after, 0

    def __call__(self):
        self.asked += 1
        return self.versions[sum(self.asked > number for number in self.after)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return LanguageModel.load(save_small_model(tmp_path_factory.mktemp("model")))


def weights(model, factor=1.0):
    return {name: (w * factor if w.dim() > 1 else w).detach().clone() for name, w in model.network.named_parameters()}


def versions(model, *factors):
    """Published weights of the steps 3, 4, ...: the number of updates is ten times the step."""
    return [{"step": 3 + i, "updates": {"policy": 30 + 10 * i}, "weights": {"policy": weights(model, f)}} for i, f in enumerate(factors)]


def changing(model, found, newest):
    """A worker's player with a copy of the model."""
    player = SimpleNamespace(name="policy", policy=model.clone(), updates=0)
    return Changing(player, newest, lambda step: next(v for v in found if v["step"] == step))


def asks(model, count=6, **sampling):
    sampling = Sampling(**{"max_tokens": 24, **sampling})
    prompts = [model.opening(text) for text in ("12+7=", "a longer prompt than the others: ")]
    return [Ask(prompts[i % 2], len(prompts[i % 2].sequence), sampling, Key(5).fold(i)) for i in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_interruptions_under_unchanged_weights_change_no_draw(model, seed):
    moments = sorted(np.random.default_rng(seed).choice(np.arange(1, 24), size=4, replace=False).tolist())
    found = versions(model, 1, 1, 1, 1, 1)
    policy = changing(model, found, Publisher(found, *moments))
    whole, parted = model.act(asks(model)), policy.act(asks(model))
    assert policy.loaded == 7
    for one, other in zip(whole, parted, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert (one.ended, one.sequence.tolist(), one.parent[1]) == (other.ended, other.sequence.tolist(), other.parent[1])
        assert np.abs(one.logprobs - other.logprobs).max() < 1e-5
    assert max(len(set(c.versions.tolist())) for c in parted) >= 3


def test_each_token_has_the_log_probability_and_the_version_of_its_weights(model):
    found = versions(model, 1, 0.5, 2)
    parted = changing(model, found, Publisher(found, 6, 12)).act(asks(model))
    for version in found:
        own = model.clone()
        with torch.no_grad():
            for name, w in own.network.named_parameters():
                w.copy_(version["weights"]["policy"][name])
        rows = own.evaluate(parted, (LogProb(),))[LogProb()].detach().numpy()
        mine = np.concatenate([c.versions for c in parted]) == version["updates"]["policy"]
        assert mine.sum() >= 6
        assert np.abs(np.concatenate([c.logprobs for c in parted])[mine] - rows[mine]).max() < 1e-4
    assert all((np.diff(c.versions) >= 0).all() for c in parted)  # newer weights only
    first = model.act(asks(model))
    for one, other in zip(first, parted, strict=True):
        before = int((other.versions == 30).sum())
        assert before >= 4
        assert one.tokens[:before].tolist() == other.tokens[:before].tolist()


def test_the_diary_repeats_the_bytes_without_the_clock(model):
    found = versions(model, 1, 0.5, 2)
    policy = changing(model, found, Publisher(found, 5, 11))
    policy.diary = Diary(default=3)
    parted = policy.act(asks(model)[:4]) + policy.act(asks(model)[4:])  # the second call begins with the newest weights
    diary = policy.diary
    assert diary.oldest == 3
    stored = diary.stored()
    assert [version for _, version in sorted(stored.values())[0]] == [3, 4, 5]
    assert [(0, 5)] in stored.values()
    again = changing(model, found, lambda: pytest.fail("a repetition reads no clock"))
    again.diary = Diary({name: [list(change) for change in changes] for name, changes in stored.items()}, default=3)
    repeated = again.act(asks(model)[3:]) + again.act(asks(model)[:3])  # in another order and in other batches
    for one, other in zip(parted[3:] + parted[:3], repeated, strict=True):
        for name in ("tokens", "logprobs", "versions"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert one.ended is other.ended
    assert again.diary.stored() == stored


def test_equal_keys_have_separate_changes():
    diary = Diary()
    key = SimpleNamespace(key=Key(1))
    assert diary.names([key, key]) == [f"{Key(1).value:x}", f"{Key(1).value:x}/1"]
    assert diary.names([key]) == [f"{Key(1).value:x}/2"]


def test_a_failed_call_leaves_no_trace(model):
    found = versions(model, 1, 0.5)
    policy = changing(model, found, Publisher(found, 3))

    class Full:
        can, text = model.can, model.text

        def act(self, asked, pause=bool):
            raise MemoryError

    policy.inner, real = Full(), policy.inner
    with pytest.raises(MemoryError):
        policy.act(asks(model))
    policy.inner = real
    policy.act(asks(model))
    assert not any("/" in name for name in policy.diary.changes)


def test_a_stop_string_across_a_change_ends_the_answer(model):
    plain = model.act(asks(model, 1))[0]
    text = model.text(plain.tokens)
    place = next(i for i in range(4, 18) if text.index(text[i : i + 2]) == i)
    stop = text[place : place + 2]
    found = versions(model, 1, 1)
    policy = changing(model, found, Publisher(found, place + 2))
    (answer,) = policy.act(asks(model, 1, stops=(stop,)))
    assert policy.diary.changes == {f"{Key(5).fold(0).value:x}": [(0, 3), (place + 1, 4)]}
    assert model.text(answer.tokens) == text[: place + 2]
    assert answer.ended is Ended.STOP
    assert len(answer.logprobs) == len(answer.versions) == len(answer.tokens) == place + 2


def test_a_policy_that_cannot_pause_changes_between_two_answers(model):
    class Whole:
        can, text, network = model.can - {"pause"}, model.text, model.clone().network

        def act(self, asked):
            return model.act(asked)

    found = versions(model, 1, 0.5)
    policy = changing(model, found, Publisher(found, 1))
    policy.inner = policy.player.policy = Whole()
    first, second = policy.act(asks(model, 1)), policy.act(asks(model, 1))
    assert [set(c.versions.tolist()) for (c,) in (first, second)] == [{30}, {40}]
    assert list(policy.diary.changes.values()) == [[(0, 3)], [(0, 4)]]


def test_readings_and_token_rules_are_refused(model):
    policy = changing(model, versions(model, 1), lambda: None)
    with pytest.raises(UserError, match=r"computes values with the weights of policy .* set --system\.interrupt false"):
        policy.evaluate([], ())
    with pytest.raises(UserError, match="a token rule reads the logits of policy"):
        policy.lockstep(10)
    assert policy.context_length == model.context_length
