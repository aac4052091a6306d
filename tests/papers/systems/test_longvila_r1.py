"""LongVILA-R1: frames are encoded once per group, two processes have the rows and the loss of one, the reward by hand, the base in one process."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus import api
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.longvila_r1 import longvila_r1
from gradus.policies.lm import LanguageModel
from gradus.policies.sequence import share_of_rows
from gradus.policies.sighted import Encoded
from gradus.rewards.verified import Verified
from gradus.systems.messages import Errand
from gradus.testing.methods import check_different_update, check_same_update, toy_trajectory
from gradus.types import Context, Group, Key, Sampling
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from gradus.types.systems import SequenceParallel
from tests.policies.test_sequence import by_all
from tests.policies.vision_models import folder, picture

FRAMES = 5


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> LanguageModel:
    return LanguageModel.load(folder("llava-siglip", tmp_path_factory.mktemp("llava")))


def video(model: LanguageModel, words: str = "what is here") -> Context:
    """A question about a video of five frames."""
    frames = [{"type": "image", "media": picture(seed)} for seed in range(FRAMES)]
    return model.opening([{"role": "user", "content": [*frames, {"type": "text", "text": words}]}])


def eight_answers(model: LanguageModel, prompt: Context) -> list[Context]:
    return model.act([Errand(prompt, len(prompt.sequence), Sampling(max_tokens=4), Key(7).fold(i)) for i in range(8)])


def test_eight_answers_encode_every_frame_once_and_equal_those_without_a_cache(model, monkeypatch):
    kept = model.clone()
    prompt = video(model)
    answers = eight_answers(kept, prompt)
    with torch.no_grad():
        rows = kept.evaluate(answers, (LogProb(),))[LogProb()]
    assert kept.trunk.encoded.count == FRAMES  # eight answers and their log-probabilities
    monkeypatch.setattr(Encoded, "get", lambda self, digest, weights: None)
    fresh = model.clone()
    again = eight_answers(fresh, prompt)
    with torch.no_grad():
        assert torch.equal(fresh.evaluate(again, (LogProb(),))[LogProb()], rows)
    assert fresh.trunk.encoded.count == FRAMES * (8 + 1)  # once per answer, and once for the pass
    for mine, theirs in zip(answers, again, strict=True):
        assert np.array_equal(mine.tokens, theirs.tokens)
        assert np.array_equal(mine.logprobs, theirs.logprobs)


@pytest.mark.parametrize(("trains", "count"), [(("",), 8), (("layers",), 4)])
def test_a_frozen_tower_encodes_every_picture_once_in_a_run(trains, count):
    """Two steps with two pictures each. If the tower learns, the pass with gradient encodes them again."""
    small = {"setting__prompts": 2, "setting__group": 4, "setting__max_tokens": 8, "study": None}
    planned = api.plan("longvila_r1", "shapes", steps=2)
    planned = api.replace(planned, recipe=planned.recipe.but(**small, players__policy__trains=trains))
    run = api.launch(planned, None)
    assert [run.players[name].policy.trunk.encoded.count for name in ("policy", "reference")] == [count, 4]


def batch_of(answers: list[Context]):
    trajectories = [toy_trajectory([2] * c.actions, name=f"g/{i}", reward=float(i % 3 == 0)).but(contexts=(c,)) for i, c in enumerate(answers)]
    advantages = [np.full(c.actions, 1.0 if i % 3 == 0 else -0.5) for i, c in enumerate(answers)]
    return make_batch([Group("g", tuple(t.but(advantages=a) for t, a in zip(trajectories, advantages, strict=True)))])


@pytest.mark.parametrize(("words", "odd"), [("what is here", 0), ("what is", 1)])
def test_two_processes_have_the_rows_and_the_loss_of_one(model, words, odd, monkeypatch):
    prompt = video(model, words)
    assert len(prompt.sequence) % 2 == odd
    answers = eight_answers(model, prompt)
    rows = model.evaluate(answers, (LogProb(),))[LogProb()].detach()
    found = by_all(2, lambda team: share_of_rows(model, answers, (LogProb(),), Key(), team), monkeypatch)
    joined = torch.empty_like(rows)
    for index, mine in found:
        joined[index] = mine[LogProb()].detach()
    assert float((joined - rows).abs().max()) < 1e-5
    objective, batch = {"policy": longvila_r1.objective["policy"]}, batch_of(answers)
    losses = [float(evaluate(objective, {LogProb(): given}, batch)[0]) for given in (rows, joined)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0] != 0


def test_the_last_token_of_a_part_predicts_the_first_of_the_next(model, monkeypatch):
    prompt = video(model)
    answer = Context(np.array([30, 31, 32, 30, 31], np.int32), np.ones(5, bool), parent=(prompt, len(prompt.sequence)))
    long = Context(np.concatenate([prompt.sequence, answer.tokens]), np.arange(len(prompt.sequence) + 5) > 0, seen=prompt.shown)
    cut = (len(long.tokens) - 1) // 2  # the last token has no row
    (first, rows), (second, _) = by_all(2, lambda team: share_of_rows(model, [long], (LogProb(),), Key(), team), monkeypatch)
    assert first.tolist()[-1] + 1 == cut  # action i is token i + 1; token `cut` is in the second part
    assert second.tolist()[0] + 1 == cut + 1
    whole = model.evaluate([long], (LogProb(),))[LogProb()]
    assert float((rows[LogProb()] - whole[: len(first)]).detach().abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("right", "text", "reward"),
    [
        (1.0, "<think>two frames</think><answer>red</answer>", 1.0),
        (1.0, "red", 0.9),
        (0.0, "<think>two frames</think> <answer>blue</answer>", 0.1),
        (0.0, "blue", 0.0),
    ],
)
def test_the_reward_by_hand(right, text, reward):
    total = longvila_r1.reward
    assert total.weights["verified"] * right + total.weights["tags"] * total.parts["tags"].value(text) + total.constant == pytest.approx(reward)


def test_in_one_process_it_trains_to_the_weights_of_grpo():
    plain = grpo.but(objective__kl__coefficient=0.01, setting__group=8)
    same = longvila_r1.but(reward=plain.reward)
    check_same_update(same, plain, steps=2)
    check_same_update(same, same.but(system=None), steps=2)
    check_different_update(same, grpo.but(setting__group=8, objective__kl__coefficient=1.0), steps=2)


def test_the_numbers_of_the_paper():
    assert longvila_r1.system == SequenceParallel()
    assert (longvila_r1.setting.group, longvila_r1.objective["kl"].coefficient) == (8, 0.01)
    assert (longvila_r1.objective["policy"].trust.low, longvila_r1.objective["policy"].trust.high) == (0.2, 0.2)
    assert isinstance(longvila_r1.reward.parts["verified"], Verified)
