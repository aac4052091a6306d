"""Noise on the norms of a copy: stages, clean weights below it, the same bytes after a pause, and what it does to a layer."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import gradus
from gradus import load_recipe
from gradus.players.build import build_players
from gradus.players.noise import norms, renew
from gradus.policies.fused import rms_norm
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.testing.methods import TOY
from gradus.types import Key, UserError
from gradus.types.players import Adapter, Noisy, Player
from tests.policies.shapes import ours
from tests.small_model import save_small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("small") / "model")


def players_of(folder, **relation):
    copy = Player(Noisy("policy", **{"stages": 2, "sigma_start": 0.1, **relation}))
    return build_players(load_recipe("grpo").but(players__noisy=copy), folder, TOY, Key(3))


def weights(players, name="noisy"):
    return {n: p.detach().clone() for n, p in players[name].policy.network.named_parameters()}


def test_only_the_norms_of_the_copy_get_noise_of_the_right_size(folder):
    players = players_of(folder)
    clean = weights(players, "policy")
    renew(players, Key(0), 5, 10)
    noisy = weights(players)
    found = [n for n in clean if not torch.equal(clean[n], noisy[n])]
    # two norms in each of two blocks, and the last one
    assert sorted(found) == sorted(norms(players["noisy"].policy.network)) == sorted(n for n in clean if "norm" in n)
    assert len(found) == 5
    z = torch.cat([(noisy[n] - clean[n]).flatten() for n in found]) / 0.1
    assert abs(float(z.mean())) < 0.25  # 160 numbers: a deviation of 0.08
    assert float(z.std()) == pytest.approx(1.0, abs=0.2)
    assert all(torch.equal(weight, clean[n]) for n, weight in weights(players, "policy").items())


def test_noise_is_added_to_clean_weights_and_drawn_anew_for_every_step(folder):
    players, seen = players_of(folder), []
    with torch.no_grad():
        for step in range(5, 10):
            name = next(n for n in norms(players["policy"].policy.network))
            players["policy"].policy.network.get_parameter(name).fill_(float(step))
            renew(players, Key(0), step, 10)
            seen.append(weights(players)[name] - step)
    assert all(float(noise.abs().max()) < 0.5 for noise in seen)  # a random walk of 32 numbers over five steps would have left this
    assert len({float(noise[0]) for noise in seen}) == 5
    renew(players, Key(0), 9, 10)
    assert torch.equal(weights(players)[name] - 9, seen[-1])  # the key and the step determine it
    renew(players, Key(1), 9, 10)
    assert not torch.equal(weights(players)[name] - 9, seen[-1])


def test_without_noise_it_is_the_other_player(folder):
    players = players_of(folder)
    players["policy"].updates = 4
    with torch.no_grad():
        next(iter(players["policy"].policy.network.parameters())).fill_(0.5)
    renew(players, Key(0), 4, 10)  # the first stage
    assert all(torch.equal(weight, weights(players, "policy")[n]) for n, weight in weights(players).items())
    assert players["noisy"].updates == 4


def test_noise_on_a_norm_scales_the_inputs_of_the_next_layer():
    block = ours("llama").model.layers[0]
    w, linear = block.input_layernorm.weight.detach().double() + 0.5, block.self_attn.q_proj.weight.detach().double()
    x, z = (torch.from_numpy(Key(n).normal(*shape)) for n, shape in ((1, (4, len(w))), (2, (len(w),))))
    noisy = F.linear(rms_norm(x, w + 0.1 * z, 1e-6, False), linear)
    scaled = F.linear(rms_norm(x, w, 1e-6, False), linear * (1 + 0.1 * z / w))
    assert_close(noisy, scaled, rtol=0, atol=1e-6)
    assert float((noisy - F.linear(rms_norm(x, w, 1e-6, False), linear)).abs().max()) > 1e-3


def test_noise_of_narrow_weights_is_rounded_once(folder):
    made = load_recipe("grpo").but(players__noisy=Player(Noisy("policy", stages=2, sigma_start=0.1)), setting__precision="bfloat16")
    players = build_players(made, folder, TOY, Key(3))
    name = next(iter(norms(players["noisy"].policy.network)))
    clean = weights(players, "policy")[name]
    renew(players, Key(0), 5, 10)
    noise = torch.from_numpy(Key(0).fold("noise", "noisy", 5, name).normal(*clean.shape))
    assert torch.equal(weights(players)[name], (clean.double() + 0.1 * noise).to(torch.bfloat16))


def test_a_model_without_such_norms_is_refused():
    made = load_recipe("sac").but(players__noisy=Player(Noisy("policy")))
    from gradus.testing.methods.control import toy_control

    with pytest.raises(UserError, match=r"players.noisy.model is Noisy.*the model of policy has no RMSNorm"):
        build_players(made, None, toy_control(), Key(3))


def test_a_run_samples_from_the_noisy_copy_and_goes_on_to_the_same_bytes(tmp_path):
    model = save_small_model(tmp_path / "model")
    own = {"rollout": BehaviourPolicy("noisy"), "players__noisy": Player(Noisy("policy", sigma_start=0.3, sigma_end=0.2, stages=4))}
    own["players__policy"] = Player(Adapter(rank=2, bits="nvfp4"), learns_from="noisy")
    small = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 6, "setting__eval_every": 0, "study": None, "model": str(model)}
    whole = gradus.train("grpo", "arithmetic", steps=4, run=tmp_path / "whole", **small, **own)

    def fall(run, row, groups):
        if row["step"] == 2:
            raise RuntimeError("the machine fails")

    with pytest.raises(RuntimeError, match="the machine fails"):
        gradus.train("grpo", "arithmetic", steps=4, run=tmp_path / "cut", on_step=fall, setting__save_every=1, **small, **own)
    gradus.resume(tmp_path / "cut")
    clean, noisy = weights(whole.players, "policy"), weights(whole.players)
    names = norms(whole.players["noisy"].policy.network)
    assert {n for n in clean if not torch.equal(clean[n], noisy[n])} == set(names)
    moved = math.sqrt(sum(float((noisy[n] - clean[n]).square().sum()) for n in names) / sum(clean[n].numel() for n in names))
    assert moved == pytest.approx(0.2, rel=0.25)  # after the last step: the noise of the last stage
    for name in ("player-policy.safetensors", "player-noisy.safetensors"):
        found, due = ((tmp_path / run / "checkpoints" / "step-000004" / name).read_bytes() for run in ("cut", "whole"))
        assert found == due, name
    assert (tmp_path / "whole" / "metrics.jsonl").read_bytes() == (tmp_path / "cut" / "metrics.jsonl").read_bytes()
