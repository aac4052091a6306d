"""Players made from what a recipe writes: adapters, copies, heads; those that follow others; relations that lead nowhere."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

from gradus import load_recipe
from gradus.players.build import build_players, follow
from gradus.policies.lm import LanguageModel
from gradus.testing.methods import TOY
from gradus.testing.methods.control import toy_control
from gradus.types import Key, UserError
from gradus.types.players import Adapter, Copy, Head, Lagged, MovingAverage, Player
from tests.small_model import save_small_model

grpo = load_recipe("grpo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("small") / "model")


def players_of(folder, recipe=grpo, **players):
    return build_players(recipe.but(**{f"players__{name}": player for name, player in players.items()}), folder, TOY, Key(3))


def controllers(model=None, task=None, **hidden):
    made = load_recipe("sac").but(**{f"players__{n}__model__hidden": hidden.get(n, (8,)) for n in ("policy", "critic")})
    return build_players(made, model, task or toy_control(), Key(3))


def test_a_fresh_policy_begins_with_the_weights_of_a_controllers_folder(tmp_path):
    before = controllers()
    with torch.no_grad():
        for p in before["policy"].policy.network.parameters():
            p.add_(1.0)
    before["policy"].policy.save(tmp_path / "model")
    after, fresh = controllers(tmp_path / "model"), controllers()
    same = {n: [torch.equal(a, b) for a, b in zip(*(of[n].policy.network.parameters() for of in (after, before)), strict=True)] for n in after}
    assert all(all(found) for found in same.values())  # the critic is the one drawn by the key, as without a folder
    assert not torch.equal(*(next(of["policy"].policy.network.parameters()) for of in (after, fresh)))
    for players, model in ((lambda: controllers(tmp_path / "model", policy=(9,)), "model"), (lambda: controllers(tmp_path / "critic"), "critic")):
        before["critic"].policy.save(tmp_path / "critic")
        with pytest.raises(UserError, match=rf"{model} is another kind of model or has other fields; leave out --model to start with fresh weights"):
            players()


def test_a_model_of_another_kind_is_for_the_player_that_takes_it(folder):
    made = load_recipe("sac").but(players__writer=Player())
    players = build_players(made, folder, toy_control(), Key(3))
    assert isinstance(players["writer"].policy, LanguageModel)
    with pytest.raises(UserError, match="has other fields"):
        controllers(folder)


def test_without_more_the_policy_learns_with_all_its_weights_and_its_copy_is_frozen(folder):
    players = players_of(folder)
    assert list(players) == ["policy", "reference"]
    assert {id(p) for p in players["policy"].parameters} == {id(p) for p in players["policy"].policy.network.parameters()}
    assert not players["reference"].learns
    assert not any(p.requires_grad for p in players["reference"].policy.network.parameters())
    mine, theirs = (players[n].policy.network.state_dict() for n in ("policy", "reference"))
    assert all(torch.equal(mine[k], theirs[k]) and mine[k].data_ptr() != theirs[k].data_ptr() for k in mine)


def test_the_setting_says_whether_activations_are_computed_again(folder):
    for recompute in (False, True):
        players = players_of(folder, grpo.but(setting__recompute=recompute), policy=Player(Adapter(rank=2)))
        assert [p.policy.recompute for p in players.values()] == [recompute] * 2
    players = players_of(folder, grpo.but(setting__backward_chunks=6), policy=Player(Adapter(rank=2)))
    assert [p.policy.recompute for p in players.values()] == [6, 6]


def test_what_cannot_compute_activations_again_says_so(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    fields = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**fields, "attention_dropout": 0.1}))
    with pytest.raises(UserError, match=r"setting.recompute needs the built-in decoder, but config.json has attention_dropout = 0.1"):
        players_of(tmp_path, grpo.but(setting__recompute=True))
    with pytest.raises(UserError, match=r"setting.backward_chunks needs the built-in decoder"):
        players_of(tmp_path, grpo.but(setting__backward_chunks=2))


def test_an_adapter_of_the_given_model_is_all_that_learns(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    players = players_of(folder.name, policy=Player(Adapter(rank=2, alpha=8.0)))
    learner = players["policy"]
    # width 32, two of four heads for keys and values (16), inner width 64, rank 2: A [2, in] and B [out, 2] for seven layers of each of two blocks:
    # q 32+32, k 32+16, v 32+16, o 32+32, gate 32+64, up 32+64, down 64+32 = 512; 512 * 2 * 2 = 2048
    assert sum(p.numel() for p in learner.parameters) == 2048
    before = {name: w.clone() for name, w in learner.policy.network.state_dict().items()}
    for p in learner.parameters:
        p.grad = torch.ones_like(p)
    learner.move(10)
    moved = {name for name, w in learner.policy.network.state_dict().items() if not torch.equal(w, before[name])}
    assert moved
    assert all(".lora_" in name for name in moved)
    learner.policy.save(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["base_model_name_or_path"]) == (2, str(folder.resolve()))


def test_what_an_adapter_has_learned_is_the_same_in_transformers_and_in_peft(folder, tmp_path):
    learner = players_of(folder, policy=Player(Adapter(rank=2)))["policy"]
    for i, p in enumerate(learner.parameters):
        p.grad = torch.full_like(p, (-1.0) ** i)
    learner.move(10)
    learner.policy.save(tmp_path / "saved")
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    tokens = torch.tensor([[5, 9, 40, 41]])
    with torch.no_grad():
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")(tokens).logits
        base = AutoModelForCausalLM.from_pretrained(folder)
        start = base(tokens).logits
        adapted = PeftModel.from_pretrained(base, tmp_path / "saved" / "adapter")(tokens).logits
    assert float((merged - adapted).abs().max()) < 1e-5
    assert float((merged - start).abs().max()) > 1e-4
    again = LanguageModel.load(tmp_path / "saved" / "adapter")  # and goes on being trained from its own folder
    assert sum(p.numel() for p in again.network.parameters() if p.requires_grad) == 2048


def test_an_adapter_of_another_player_shares_its_weights(folder):
    players = players_of(folder, judge=Player(Adapter("policy"), objective=grpo.objective, credit=grpo.credit, learns_from="policy"))
    theirs = players["policy"].policy.network.state_dict()
    mine = players["judge"].policy.network.state_dict()
    shared = {name: w for name, w in mine.items() if ".lora_" not in name}
    assert all(w.data_ptr() == theirs[name.replace(".base", ".weight")].data_ptr() for name, w in shared.items())


def test_a_critic_with_weights_of_its_own_and_one_that_shares(folder):
    own, shared = (
        players_of(folder, critic=Player(Head(of), objective=load_recipe("ppo").players["critic"].objective))["critic"]
        for of in (Copy("policy"), "policy")
    )
    assert sum(p.numel() for p in shared.parameters) < sum(p.numel() for p in own.parameters)
    assert {own.policy.can, shared.policy.can} == {own.policy.can}
    assert "value" in own.policy.can


def test_players_learn_at_rates_of_their_own(folder):
    ppo = load_recipe("ppo")
    fast = ppo.but(players__critic__optimizer=ppo.optimizer).but(
        players__critic__optimizer__lr=0.01, setting__learning_rate=0.001, setting__warmup=0
    )
    players = build_players(fast, folder, TOY, Key(3))
    rates = {}
    for name in ("policy", "critic"):
        for p in players[name].parameters:
            p.grad = torch.ones_like(p)
        before = players[name].parameters[0].detach().clone()
        rates[name] = players[name].move(0)["learning_rate"]
        # Adam's first step is the rate times the gradient's sign: every weight goes down by the rate
        assert torch.allclose(before - players[name].parameters[0], torch.full_like(before, rates[name]), rtol=1e-3)
    assert rates == {"policy": 0.001, "critic": 0.01}


def test_followers_catch_up(folder):
    players = players_of(folder, slow=Player(MovingAverage("policy", decay=0.75)), late=Player(Lagged("policy", updates=2)))
    history, weights = {}, []
    parameter = next(iter(dict(players["policy"].policy.network.named_parameters())))
    for value in (1.0, 2.0, 3.0):
        with torch.no_grad():
            players["policy"].policy.network.get_parameter(parameter).fill_(value)
            if not weights:
                players["slow"].policy.network.get_parameter(parameter).fill_(0.0)
                players["late"].policy.network.get_parameter(parameter).fill_(0.0)
        moved = {name: p.updates for name, p in players.items()}
        players["policy"].updates += 1
        follow(players, moved, history)
        weights.append([float(players[n].policy.network.get_parameter(parameter).flatten()[0]) for n in ("slow", "late")])
    # average: 0.25 * 1 = 0.25; 0.75 * 0.25 + 0.25 * 2 = 0.6875; 0.75 * 0.6875 + 0.25 * 3 = 1.265625. Two updates behind: start, start, first
    assert weights == [[0.25, 0.0], [0.6875, 0.0], [1.265625, 1.0]]
    follow(players, {name: p.updates for name, p in players.items()}, history)  # nobody moved
    assert float(players["slow"].policy.network.get_parameter(parameter).flatten()[0]) == 1.265625


def following(relation, dtype=torch.float32):
    """The policy and a player that follows it, each one weight of 0; and a step in which the policy moves to `value`, `moves` times over."""
    players = {
        name: SimpleNamespace(spec=Player(model), updates=0, policy=SimpleNamespace(network=torch.nn.Linear(1, 1, bias=False, dtype=dtype)))
        for name, model in (("policy", None), ("after", relation))
    }
    history: dict = {}

    def weight(name):
        return players[name].policy.network.weight.data

    def step(value, moves=1):
        moved = {name: p.updates for name, p in players.items()}
        weight("policy").fill_(value)
        players["policy"].updates += moves
        follow(players, moved, history)
        return float(weight("after")), players["after"].updates

    weight("policy").zero_()
    weight("after").zero_()
    return step


def test_a_lag_is_counted_in_updates_where_a_step_has_several():
    step = following(Lagged(updates=4))
    # three updates a step: weights are seen at 3, 6, 9, 12. Four behind 6 is 2: the start; 9: 5, so those of 3; 12: 8, so those of 6
    assert [step(value, moves=3) for value in (1.0, 2.0, 3.0, 4.0)] == [(0.0, 0), (0.0, 0), (1.0, 3), (2.0, 6)]


def test_an_average_moves_for_every_update_that_is_due_within_a_step():
    step = following(MovingAverage(decay=0.5, every=3))
    # updates 2, 4, 6, 12: none is due, then 3, then 6, then 9 and 12: 0.5 * 0 + 0.5 * 2, 0.5 * 1 + 0.5 * 3, 0.25 * 2 + 0.75 * 4
    assert [step(v, m)[0] for v, m in ((1.0, 2), (2.0, 2), (3.0, 2), (4.0, 6))] == [0.0, 1.0, 2.0, 3.5]


def test_the_average_of_a_narrow_network_does_not_round_away():
    step = following(MovingAverage(decay=0.999), torch.bfloat16)
    found = [step(1.0)[0] for _ in range(1000)][-1]
    assert found == pytest.approx(1 - 0.999**1000, rel=2**-8)  # 0.632; in bfloat16 alone it stands still where 0.001 is below half a digit


@pytest.mark.parametrize(
    ("players", "sentence"),
    [
        ({"reference": Player(Copy("polcy"))}, r'unknown player "polcy" \(did you mean policy\?\)'),
        ({"policy": Player(Copy("reference"))}, "policy -> reference -> policy take their models from each other"),
        ({"policy": Player(Adapter("policy"))}, "policy -> policy take their models from each other"),
        ({"second": Player(Adapter("first")), "first": Player(Adapter("policy"))}, "already has an adapter"),
    ],
)
def test_relations_that_lead_nowhere_are_told(folder, players, sentence):
    with pytest.raises(UserError, match=sentence):
        players_of(folder, **players)


def test_policies_that_take_no_adapter_say_so():
    from gradus.training.plan import load_task

    flow = load_recipe("flow_grpo")
    for model in (Adapter(), Head(Copy("policy"))):
        with pytest.raises(UserError, match=rf"players.extra.model is {type(model).__name__}, which its base model does not support"):
            build_players(flow.but(players__extra=Player(model)), None, load_task("flow_2d"), Key(3))
