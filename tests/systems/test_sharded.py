"""Two processes with half of the weights each: the weights of one process, parts of half the size, checkpoints that both kinds of run continue; refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gradus import api
from gradus.systems.leader import Crew
from gradus.systems.sharded import Parts, Together, check, learning, told
from gradus.types import UserError
from gradus.types.players import Copy, MovingAverage, Noisy, Player
from gradus.types.systems import Sharded
from gradus.updates.reptile import Reptile
from tests.small_model import save_small_model

SMALL = {"prompts": 3, "group": 2, "max_tokens": 6, "micro_tokens": 48, "eval_every": 0, "learning_rate": 1e-3, "warmup": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("model")))


def plan(model: str, key: str = "sft", steps: int = 3, **changes):
    planned = api.plan(key, "arithmetic", model=model, steps=steps)
    fields = {f"setting__{name}": value for name, value in SMALL.items()}
    return api.replace(planned, recipe=planned.recipe.but(**{**fields, "study": None, "system": Sharded(), **changes}))


def trained(planned, folder: Path, processes: int):
    seen: list[dict[int, int]] = []

    def look(run, row, groups):
        others = run.players["policy"].others
        seen.append({} if others is None else dict(others.sizes))

    run = api.launch(api.replace(planned, processes=processes), folder, on_step=look)
    return run, seen


def far(a: Path, b: Path) -> float:
    """The largest difference between the weights, moments and copies of two runs' last checkpoints."""
    last = [sorted((folder / "checkpoints").glob("step-*"))[-1] for folder in (a, b)]
    names = sorted(str(p.relative_to(last[0])) for p in last[0].rglob("*.safetensors"))
    assert names == sorted(str(p.relative_to(last[1])) for p in last[1].rglob("*.safetensors"))
    worst = 0.0
    for name in names:
        mine, theirs = (load_file(folder / name) for folder in last)
        assert mine.keys() == theirs.keys()
        worst = max(worst, *(float((mine[n].double() - theirs[n].double()).abs().max()) for n in mine))
    return worst


@pytest.mark.alone
def test_two_processes_train_the_weights_of_one_with_half_of_them_each(model, tmp_path):
    one, _ = trained(plan(model), tmp_path / "one", 1)
    two, sizes = trained(plan(model), tmp_path / "two", 2)
    assert far(tmp_path / "one", tmp_path / "two") < 1e-4
    assert [row["grad_norm"] for row in two.metrics] == pytest.approx([row["grad_norm"] for row in one.metrics], rel=1e-4)
    whole = sum(t.nbytes for t in one.players["policy"].tensors().values())
    assert set(sizes[-1]) == {0, 1}
    assert all(0.49 * whole < size < 0.52 * whole for size in sizes[-1].values())  # the last rows of a tensor with an odd number go to the first process
    player = two.players["policy"]  # after the run, the player is whole again
    assert player.others is None
    for mine, due in zip(player.masters, one.players["policy"].masters, strict=True):
        torch.testing.assert_close(mine, due, rtol=0, atol=1e-4)


LONGER = {
    "20 steps": ("sft", 20, {}),
    "samples, groups and a reference": ("grpo", 4, {"setting__learning_rate": 1e-4}),
    "a critic of its own": ("ppo", 3, {"setting__learning_rate": 1e-4}),
    "recomputed layers": ("sft", 5, {"setting__recompute": True}),
    "clipping": ("sft", 5, {"optimizer__clip": 0.05}),
}


@pytest.mark.nightly
@pytest.mark.parametrize("case", LONGER)
def test_longer_runs_stay_within_a_ten_thousandth(case, model, tmp_path):
    key, steps, changes = LONGER[case]
    trained(plan(model, key, steps, **changes), tmp_path / "one", 1)
    trained(plan(model, key, steps, **changes), tmp_path / "two", 2)
    assert far(tmp_path / "one", tmp_path / "two") < 1e-4


@pytest.mark.nightly
def test_bfloat16_keeps_float32_copies_of_the_parts(model, tmp_path):
    runs = [trained(plan(model, steps=4, setting__precision="bfloat16"), tmp_path / name, n)[0] for name, n in (("one", 1), ("two", 2))]
    masters = [torch.cat([m.detach().flatten() for m in run.players["policy"].masters]) for run in runs]
    start = torch.cat([p.detach().float().flatten() for p in api.start(plan(model)).players["policy"].policy.network.parameters()])
    assert masters[0].dtype == torch.float32
    moved = (masters[0] - start).norm()
    assert (masters[0] - masters[1]).norm() < 0.1 * moved  # products in bfloat16 round gradients at the third digit


@pytest.mark.nightly
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_checkpoint_continues_in_both_kinds_of_run(order, model, tmp_path):
    planned = plan(model, steps=4)
    trained(planned, tmp_path / "whole", 1)
    trained(api.replace(planned, recipe=planned.recipe.but(setting__steps=2)), tmp_path / "parts", order[0])
    api.resume(tmp_path / "parts", more=4, processes=order[1])
    assert far(tmp_path / "whole", tmp_path / "parts") < 1e-4


@pytest.mark.nightly
def test_an_error_of_one_process_ends_the_run_with_its_name(model, tmp_path):
    def harm(run, row, groups):
        next(iter(run.players["policy"].others.crew.children.values())).kill()

    with pytest.raises(UserError, match=r"process 1 of 2 has ended \(killed by signal 9\)"):
        api.launch(api.replace(plan(model), processes=2), tmp_path / "run", on_step=harm)


def test_what_cannot_be_divided_is_refused(model):
    run = api.start(plan(model, "grpo"))
    check(run.recipe, run.players)
    with pytest.raises(UserError, match="update Reptile reads or writes whole weights; leave out --system"):
        check(run.recipe.but(update=Reptile()), run.players)
    with pytest.raises(UserError, match=r"setting.backward_chunks is 4, .*leave out --system"):
        check(run.recipe.but(setting__backward_chunks=4), run.players)
    average = api.start(plan(model, "grpo", players__reference=Player(model=MovingAverage())))
    with pytest.raises(UserError, match=r"players\.reference is a MovingAverage"):
        check(average.recipe, average.players)
    noisy = api.start(plan(model, "grpo", players__reference=Player(model=Noisy())))
    with pytest.raises(UserError, match=r"players\.reference is a Noisy"):
        check(noisy.recipe, noisy.players)
    common = api.start(plan(model, "grpo", players__reference=Player(model=Copy())))
    common.players["reference"].policy = common.players["policy"].policy
    with pytest.raises(UserError, match=r"players\.reference and players.policy have common weights"):
        check(common.recipe, common.players)


def test_the_other_processes_make_the_same_optimiser(model):
    run = api.start(plan(model, "grpo", optimizer__betas=(0.8, 0.9), players__policy__trains=("layers.1",), players__policy__rates={"layers/1": 0.5}))
    made = learning(Player(), told(run.players)["policy"])
    assert (made.trains, dict(made.rates)) == (("layers.1",), {"layers/1": 0.5})
    assert made.optimizer == run.players["policy"].rule
    assert made.objective is not None
    assert set(told(run.players)) == {"policy"}


def test_after_an_error_the_processes_do_not_work_together_again():
    crew = Crew({})
    together = Together("policy", None, crew)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="enough"), together.round():
        raise ValueError("enough")
    with pytest.raises(UserError, match="no longer work together; continue from the last checkpoint"), together.round():
        pass
    crew.lost = False
    with pytest.raises(UserError, match=r"memory ran out in a pass of policy.*smaller --micro_tokens"), together.round():
        raise MemoryError


def test_a_failed_process_ends_at_once(monkeypatch, capfd):
    """If it went on, the others would wait for it in a common operation."""
    from gradus.systems import worker

    parts = Parts.__new__(Parts)
    parts.parts = {}
    with pytest.raises(SystemExit):
        parts.answer({"player": "policy", "act": "rows"}, {})
    assert "KeyError: 'policy'" in capfd.readouterr().err

    def fail(channel):
        raise SystemExit(1)

    codes: list[int] = []
    for name, stand_in in (("join", lambda *given: None), ("leave", lambda: None), ("serve", fail), ("end", codes.append)):
        monkeypatch.setattr(worker, name, stand_in)
    monkeypatch.setattr(worker.signal, "signal", lambda *given: None)
    worker.main("file:///nowhere", 1, 2)
    assert codes == [1]
