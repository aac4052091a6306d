"""Passes whose rows two processes divide: a run equals that of one process up to rounding; refusals; the notes of the first process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gradus import api
from gradus.systems import sequence
from gradus.systems.leader import Crew, Led
from gradus.systems.sequence import Divided, check
from gradus.types import Context, Key, UserError
from gradus.types.signals import HeadRow, LogProb
from gradus.types.systems import SequenceParallel
from tests.small_model import save_small_model
from tests.systems.near import Near
from tests.systems.test_sharded import SMALL, far


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("model")))


def plan(model: str, key: str = "sft", steps: int = 2, **changes):
    planned = api.plan(key, "arithmetic", model=model, steps=steps)
    fields = {f"setting__{name}": value for name, value in SMALL.items()}
    return api.replace(planned, recipe=planned.recipe.but(**{**fields, "study": None, "system": SequenceParallel(), **changes}))


@pytest.mark.alone
def test_two_processes_train_the_weights_of_one(model, tmp_path):
    for name, processes in (("one", 1), ("two", 2)):
        api.launch(api.replace(plan(model), processes=processes), tmp_path / name)
    assert far(tmp_path / "one", tmp_path / "two") < 1e-5


@pytest.mark.nightly
@pytest.mark.parametrize("key", ["grpo", "ppo"])
def test_longer_runs_stay_within_a_ten_thousandth(key, model, tmp_path):
    for name, processes in (("one", 1), ("two", 2)):
        changes = {"setting__learning_rate": 1e-4, "setting__recompute": True}
        api.launch(api.replace(plan(model, key, 4, **changes), processes=processes), tmp_path / name)
    assert far(tmp_path / "one", tmp_path / "two") < 1e-4


def test_with_one_process_the_run_is_that_without_a_system_and_says_so(model, tmp_path, capsys):
    api.launch(plan(model), tmp_path / "with")
    assert "system SequenceParallel divides work among several processes, but this run has one process" in capsys.readouterr().err
    api.launch(plan(model, system=None), tmp_path / "without")
    assert "SequenceParallel" not in capsys.readouterr().err
    assert far(tmp_path / "with", tmp_path / "without") == 0


class Alone(Near):
    """A process that gets messages, and answers with the actions and rows that it is told to answer with."""

    def __init__(self, *answers) -> None:
        super().__init__()
        self.answers = list(answers)

    def send(self, document, arrays=None) -> None:
        self.asked.append({**document, "arrays": arrays})


def test_rows_are_put_together_and_slopes_cut_by_hand(model, monkeypatch):
    """Of four actions the first process has numbers 0 and 2, the second 1 and 3."""
    run = api.start(plan(model))
    policy = run.players["policy"].policy
    weight = next(policy.network.parameters())
    theirs = {"index": torch.tensor([1, 3]), "0": torch.tensor([10.0, 30.0])}
    channel = Alone(({}, {"0": torch.ones(1)}), ({}, theirs))
    channel.receive = lambda: channel.answers.pop()
    led = Led(policy, Crew({1: channel}), "policy")
    own = (torch.tensor([0, 2]), {LogProb(): torch.tensor([0.0, 20.0]) + 0 * weight.sum()})
    monkeypatch.setattr(sequence, "share_of_rows", lambda *given: own)
    context = Context(tokens=torch.arange(3, 8, dtype=torch.int32).numpy(), chosen=torch.tensor([0, 1, 1, 1, 1]).bool().numpy())
    seen = {}

    def slopes(chosen, rows):
        seen["rows"] = rows[LogProb()].tolist()
        return {LogProb(): torch.tensor([1.0, 2.0, 3.0, 4.0])}

    monkeypatch.setattr(sequence, "backward", lambda rows, given: seen.update(own=given[LogProb()].tolist()))
    monkeypatch.setattr(Led, "_add", lambda self, gradients: seen.update(added=gradients))
    Divided(led, None).carry([context], (LogProb(),), 64, Key(), slopes)  # type: ignore[arg-type]
    assert seen["rows"] == [0, 10, 20, 30]
    assert seen["own"] == [1, 3]
    assert channel.asked[-1]["arrays"]["0"].tolist() == [2, 4]
    assert seen["added"]["0"].tolist() == [1]


def test_what_cannot_be_divided_is_refused(model):
    run = api.start(plan(model))
    check(run.players, 4)
    with pytest.raises(UserError, match="but policy has 4 heads; give at most 4 --processes"):
        check(run.players, 5)
    chunked = api.start(plan(model, setting__backward_chunks=8))
    with pytest.raises(UserError, match=r"already divides the rows, but setting.backward_chunks is 8; use --recompute true"):
        check(chunked.players, 2)
    flow = api.start(api.plan("flow_grpo", "flow_2d", steps=1))
    with pytest.raises(UserError, match="the policy of policy is another network or has a gate"):
        check(flow.players, 2)
    led = Divided(Led(run.players["policy"].policy, Crew({}), "policy"), None)  # type: ignore[arg-type]
    context = Context(tokens=torch.arange(3, 8, dtype=torch.int32).numpy(), chosen=torch.tensor([0, 1, 1, 1, 1]).bool().numpy())
    with pytest.raises(UserError, match="divides only log-probabilities, entropies and values, but the recipe reads HeadRow"):
        list(led.passes([context], (HeadRow("x"),), 64, Key()))


def test_folders_hold_the_system(model, tmp_path: Path):
    api.launch(plan(model, steps=1), tmp_path / "run")
    assert api.plan_of(api.RunFolder.open(tmp_path / "run")).recipe.system == SequenceParallel()
