"""The learning rate of a recipe that sets none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gradus.api import start
from gradus.lab.folder import RunFolder
from gradus.players.build import load_policy
from gradus.players.rates import BUILT_IN, LEAST, MOST, rate_for, reason, size_of, with_rate
from gradus.policies.flow import BUILT_IN as FLOW
from gradus.recipe.registry import recipe
from gradus.training.plan import load_task, plan, plan_of
from gradus.training.rate import chosen_rate
from gradus.types import UserError
from gradus.types.players import Adapter, Fresh, Player
from tests.small_model import save_small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("model")))


def test_larger_models_get_smaller_rates_within_the_bounds() -> None:
    sizes = [10**k for k in range(3, 13)]
    rates = [rate_for(size) for size in sizes]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (MOST, LEAST)
    assert len(set(rates)) > 5
    assert all(rate_for(size, adapter=True) == pytest.approx(10 * rate_for(size)) for size in sizes)


def test_the_size_is_the_number_of_loaded_weights(model: str) -> None:
    policy = load_policy(model, load_task("arithmetic"), recipe("grpo"), "cpu")
    assert size_of(model) == sum(p.numel() for p in policy.network.parameters())


def test_a_tied_head_and_shards_are_counted_once(tmp_path: Path) -> None:
    table, matrix = torch.zeros(7, 3), torch.zeros(3, 5)
    save_file({"model.embed_tokens.weight": table, "lm_head.weight": table.clone()}, tmp_path / "a.safetensors")
    save_file({"model.layer.weight": matrix, "model.rotary_emb.inv_freq": torch.zeros(4)}, tmp_path / "b.safetensors")
    names = {"model.embed_tokens.weight": "a.safetensors", "lm_head.weight": "a.safetensors", "model.layer.weight": "b.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    for tied, size in ((True, 21 + 15), (False, 21 + 21 + 15)):
        (tmp_path / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
        assert size_of(tmp_path) == size


@pytest.mark.parametrize("content", [b"", b"\x00", b"\xff" * 8 + b"{}", (9).to_bytes(8, "little") + b"{not json"])
def test_a_broken_file_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        size_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"model\.safetensors is not a complete safetensors file"):
        size_of(tmp_path)


def test_the_rule_fills_a_rate_that_is_left_out(model: str) -> None:
    small, size = plan("grpo", model=model).recipe, size_of(model)
    assert small.setting.learning_rate is None
    assert with_rate(small, model).setting.learning_rate == rate_for(size)
    assert reason(small, model) == f"{rate_for(size):g} for {size:,} parameters, all of them trained"
    given = small.but(setting__learning_rate=3e-5)
    assert with_rate(given, model) is given
    adapted = small.but(players__policy=Player(Adapter(rank=2)))
    assert with_rate(adapted, model).setting.learning_rate == rate_for(size, adapter=True)
    assert reason(adapted, model).endswith("of which an adapter is trained")
    named = small.but(players__policy=Player(model))
    assert with_rate(named, None).setting.learning_rate == rate_for(size)


def test_a_folder_with_only_an_adapter_has_the_size_of_its_base(model: str, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": model}))
    small = plan("grpo", model=str(tmp_path)).recipe
    assert with_rate(small, tmp_path).setting.learning_rate == rate_for(size_of(model), adapter=True)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="`base_model_name_or_path` is None"):
        with_rate(small, tmp_path)


def test_built_in_models_and_flows_keep_the_rate_of_their_recorded_curves(model: str) -> None:
    assert with_rate(recipe("grpo"), None).setting.learning_rate == with_rate(recipe("grpo"), "tiny").setting.learning_rate == BUILT_IN == 1e-4
    flow = recipe("flow_grpo").but(setting__learning_rate=None)
    assert with_rate(flow, None).setting.learning_rate == with_rate(flow, FLOW).setting.learning_rate == BUILT_IN
    assert with_rate(recipe("grpo").but(players__policy__model=Fresh()), model).setting.learning_rate == BUILT_IN
    assert with_rate(recipe("flow_grpo"), None).setting.learning_rate == 1e-3


def test_a_run_stores_the_number_and_every_player_uses_it(model: str, tmp_path: Path) -> None:
    few = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 4, "setting__warmup": 0, "study": None}
    planned = plan("ppo", model=model, steps=1)
    run = start(planned.__class__(planned.recipe.but(**few), "arithmetic", model), tmp_path / "run")
    rate = rate_for(size_of(model))
    assert run.recipe.setting.learning_rate == rate
    assert {player.setting.learning_rate for player in run.players.values()} == {rate}
    assert plan_of(RunFolder.open(tmp_path / "run")).recipe.setting.learning_rate == rate


def test_the_start_tells_a_chosen_rate_only(model: str) -> None:
    planned = plan("grpo", model=model)
    rate = rate_for(size_of(model))
    assert (chosen_rate(planned) or "").startswith(f"learning rate {rate:g} for ")
    for fields in ({"setting__learning_rate": 1e-5}, {"optimizer__lr": 1e-5}, {"objective": {}}):
        assert chosen_rate(planned.__class__(planned.recipe.but(**fields), "arithmetic", model)) is None
