"""The profile of a step: floors and shares by hand, sizes of networks, and real steps of small models."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gradus import api
from gradus.checks.profile import Machine, Row, Sizes, busy_of, floored, growth, measured, rows_of, sizes_of, used_share
from gradus.cli.main import main
from gradus.runtime.activity import Work
from gradus.types import UserError
from gradus.types.systems import Ahead
from tests.small_model import save_small_model

SIZES = Sizes(body=1000, head=100, shape=(10, 20), trained=0.5, width=4, dtype=torch.float32)
SMALL = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 4}


def machine(product: float = 1e6, read: float = 1e9) -> Machine:
    return Machine(SIZES, "cpu", lambda *_: product, lambda *_: read)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("profile") / "model"))


def test_the_floor_of_a_forward_pass_by_hand():
    row = floored(Row("updating/forward", 1.0), Work(calls=2, tokens=400, outputs=100), 2, machine())
    products = 2 * (400 * 1000 + 100 * 100) / 2  # per step: two operations for each weight and row
    assert (row.floor, row.rate, row.peak, row.unit) == (pytest.approx(products / 1e6), pytest.approx(products), 1e6, "FLOP")
    assert row.gap == pytest.approx(1.0 - products / 1e6)


def test_a_backward_pass_has_one_to_two_times_the_products():
    forward = floored(Row("updating/forward", 1.0), Work(2, 400, 100), 2, machine())
    backward = floored(Row("updating/backward", 1.0), Work(2, 400, 100), 2, machine())
    assert backward.floor == pytest.approx(1.5 * forward.floor)  # half of the weights are trained


def test_decoding_reads_the_weights_in_every_call():
    work = Work(calls=50, tokens=100, outputs=100)
    slow = floored(Row("sampling/decode", 1.0), work, 2, machine(product=1e9, read=1e6))
    assert (slow.unit, slow.floor) == ("B", pytest.approx(25 * 1100 * 4 / 1e6))
    assert slow.rate == pytest.approx(25 * 1100 * 4)
    fast = floored(Row("sampling/decode", 1.0), work, 2, machine(product=1e6, read=1e12))
    assert (fast.unit, fast.floor) == ("FLOP", pytest.approx(2 * 100 * 1100 / 2 / 1e6))


@pytest.mark.parametrize(("name", "work"), [("judging", Work(1, 10, 10)), ("updating/optimiser", Work(1, 10, 10)), ("sampling/decode", Work())])
def test_parts_without_products_have_no_floor(name, work):
    row = floored(Row(name, 1.0), work, 1, machine())
    assert row.floor is None
    assert row.gap == 1.0


def test_peaks_are_measured_once_for_each_number_of_rows():
    asked: list[int] = []

    def product(rows, *_):
        asked.append(rows)
        return 1e6

    at = Machine(SIZES, "cpu", product, lambda *_: 1e9)
    for rows in (3, 4, 3):
        at.products(rows)
    assert asked == [3, 4]


def test_the_rows_of_an_activity_add_up():
    spent = {"sampling": 1.0, "sampling/prefill": 0.25, "sampling/decode": 0.5, "judging": 2.0, "other": 0.25}
    found = {row.name: row for row in rows_of(spent, {"sampling/prefill": Work(2, 40, 4), "sampling/decode": Work(8, 16, 16)}, 2, machine())}
    assert list(found) == ["sampling", "sampling/prefill", "sampling/decode", "sampling/rest", "judging", "other"]
    assert found["sampling"].seconds == 1.75
    assert found["sampling/rest"].seconds == 1.0
    assert (found["sampling"].tokens, found["sampling/decode"].tokens, found["sampling/decode"].calls) == (28, 8, 4)


def test_differences_of_two_states():
    spent, work = growth(({"a": 1.0}, {"x": Work(1, 2, 3)}), ({"a": 1.5, "b": 2.0}, {"x": Work(2, 4, 8), "y": Work(1, 1, 1)}))
    assert spent == {"a": 0.5, "b": 2.0}
    assert [(n, w.calls, w.tokens, w.outputs) for n, w in work.items()] == [("x", 1, 2, 5), ("y", 1, 1, 1)]


def test_the_sizes_of_a_network():
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed_tokens = torch.nn.Embedding(11, 4)
            self.up, self.down = torch.nn.Linear(4, 6), torch.nn.Linear(6, 4)

        @property
        def head_weight(self) -> torch.Tensor:
            return self.embed_tokens.weight

    network = Tied()
    assert (sizes_of(network).body, sizes_of(network).head, sizes_of(network).shape) == (48, 44, (4, 6))
    network.up.requires_grad_(False)
    assert sizes_of(network).trained == pytest.approx((44 + 28) / (44 + 30 + 28))


def test_only_the_used_experts_count():
    assert used_share(SimpleNamespace(experts=SimpleNamespace(count=8, chosen=2))) == 0.25
    assert used_share(SimpleNamespace(experts=None, num_experts=4, num_experts_per_tok=1)) == 0.25
    assert used_share(SimpleNamespace(num_local_experts=None)) == used_share(None) == 1.0


def test_a_busy_machine_is_told():
    assert busy_of((0.0, 0.0), (10.0, 9.0), "cpu") == ()
    assert busy_of((0.0, 0.0), (10.0, 30.0), "cpu") == ()  # four threads
    (note,) = busy_of((0.0, 0.0), (10.0, 4.0), "cpu")
    assert "computed for only 40% of the time" in note
    assert busy_of((0.0, 0.0), (10.0, 1.0), "cuda") == ()


def test_steps_of_a_small_model(model):
    planned = api.plan("grpo", "arithmetic", model=model)
    found = measured(replace(planned, recipe=planned.recipe.but(**SMALL, system=Ahead())), 2, lambda *_: 1e12, lambda *_: 1e15)
    rows = {row.name: row for row in found.rows}
    assert set(rows) >= {
        "sampling", "sampling/prefill", "sampling/decode", "judging", "log-probs/forward", "updating/forward", "updating/backward", "updating/optimiser", "saving",
    }
    assert found.seconds == pytest.approx(sum(row.seconds for name, row in rows.items() if "/" not in name))
    assert all(rows[name].floor is not None for name in ("sampling/prefill", "log-probs/forward", "updating/forward", "updating/backward"))
    assert 0 < rows["updating/forward"].floor < rows["updating/backward"].floor
    assert rows["updating/forward"].tokens == rows["updating/backward"].tokens > 0
    assert "Ahead is left out" in found.notes[0]
    assert 1 <= len(found.advice) <= 2
    assert found.checkpoint > 0


def test_counting_leaves_the_network_as_it_was(model):
    planned = api.plan("grpo", "arithmetic", model=model)
    from gradus.checks.profile import watched

    run = api.start(replace(planned, recipe=planned.recipe.but(**SMALL)))
    before = {name: set(vars(player.policy.network)) for name, player in run.players.items()}
    with watched(run, "cpu"):
        assert run.activity.parts
    assert {name: set(vars(player.policy.network)) for name, player in run.players.items()} == before
    assert not run.activity.parts


@pytest.mark.parametrize(("words", "said"), [({"steps": 0}, "--steps is 0; give at least 1 step"), ({}, "has stages")])
def test_plans_that_cannot_be_measured(model, words, said):
    planned = api.plan("sft:5,grpo:5" if not words else "grpo", "arithmetic", model=model)
    with pytest.raises(UserError, match=said):
        measured(planned, **words)


def test_the_command(model, capsys, monkeypatch):
    monkeypatch.setattr("gradus.checks.profile.product_peak", lambda *_: 1e12)
    fields = ["--prompts", "1", "--group", "2", "--max_tokens", "3"]
    assert main(["profile", "grpo", "--model", model, "--steps", "1", *fields]) == 0
    shown = capsys.readouterr().out
    assert "1 steps" not in shown
    assert "1 step after one for warm-up" in " ".join(shown.split())
    lines = [line.split()[0] for line in shown.split("\n") if line]
    assert lines.index("sampling") < lines.index("decode") < lines.index("updating") < lines.index("backward")
    assert main(["profile", "grpo", "--model", model, "--steps", "1", "--json", *fields]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 1
