"""DataMind: the weight of imitation, cells that run again, the reward, void turns, and both limits of the loss."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.papers.agents.datamind import AGAIN, BriefOrWrong, Notebook, WithoutVoidTurns, brevity, datamind
from gradus.papers.bases.dapo import dapo
from gradus.papers.bases.sft import sft
from gradus.selection.filters import Everything
from gradus.testing.methods import check_micro_batches, loss_and_gradient, toy_group, toy_trajectory
from gradus.tools.tool import Result
from gradus.types import Ended, Failed, Frozen, Group, Key, Problem, UserError
from gradus.types.moments import Moment
from gradus.types.parts import Judgement
from tests.sandbox.isolated import isolated

OWN, EXPERT = toy_group(1, 0), toy_group(1, lengths=[3], key="e")
BOTH = [OWN, EXPERT.but(trajectories=tuple(t.but(source="expert") for t in EXPERT.trajectories), aside=True)]
ROWS = [-0.1, -0.2, -0.3, -0.4, -0.5, -1.0, -2.0]


def share(recipe: object, step: int) -> float:
    found, _ = recipe.schedule.at(Moment(step, 1000), recipe)  # type: ignore[attr-defined]
    weight = found.objective["imitation"].coefficient
    assert found.objective["policy"].coefficient == pytest.approx(1 - weight)
    return float(weight)


def test_the_weight_of_the_paper() -> None:
    assert [share(datamind, step) for step in (0, 50, 100, 200, 999)] == pytest.approx([0.9, 0.775520, 0.475, 0.05, 0.05], abs=1e-6)


@pytest.mark.parametrize(("weight", "terms"), [(0.0, dapo.objective), (1.0, sft.objective)])
def test_at_its_ends_the_loss_is_that_of_dapo_or_sft(weight: float, terms: object) -> None:
    recipe = datamind.but(schedule__points=((0, weight),), schedule__shape="linear")
    at, _ = recipe.schedule.at(Moment(0, 9), recipe)
    mixed = loss_and_gradient(at.objective, BOTH, ROWS, advantages=[1.0, -1.0, 0.0])
    alone = loss_and_gradient(terms, BOTH, ROWS, advantages=[1.0, -1.0, 0.0])  # type: ignore[arg-type]
    assert mixed[0] == alone[0]
    assert mixed[1] == alone[1]
    assert any(mixed[1])


@isolated
def test_cells_run_again_and_only_text_is_kept() -> None:
    session = Notebook().open(Problem("p", "t"), Key(0), None)

    async def run() -> list[Result]:
        return [await session.call(code) for code in ("x = 1\nprint('said')", "x += 1; print(x)", "y = x +", "x / 0", '"""a\n  b"""', "x")]

    found = asyncio.run(run())
    assert [r.text.splitlines()[-1] for r in found] == ["said", "2", "SyntaxError: invalid syntax", "ZeroDivisionError: division by zero", "  b", "2"]
    assert found[1] == Result("2")  # earlier cells print nothing
    assert [r.ok for r in found] == [True, True, False, False, True, True]
    assert session.texts == ("x = 1\nprint('said')", "x += 1; print(x)", '"""a\n  b"""', "x")
    other = session.fork(Key(1))
    asyncio.run(other.call("x = 9"))
    assert len(other.texts) == len(session.texts) + 1


def test_earlier_cells_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, object] = {}
    exec(AGAIN.format("x = 1\nprint('said')"), found)
    assert found["x"] == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("tokens", "bonus"), [(0, 0.1), (64, 0.1), (160, 0.05), (256, 0.0), (900, 0.0)])
def test_brevity_by_hand(tokens: int, bonus: float) -> None:
    assert brevity(tokens, least=64, most=256, bonus=0.1) == pytest.approx(bonus)


@pytest.mark.parametrize(
    ("ended", "verdict", "tokens", "reward"),
    [
        (Ended.ENVIRONMENT, 1.0, 4, 1.1), (Ended.ENVIRONMENT, 1.0, 12, 1.05), (Ended.ENVIRONMENT, 1.0, 20, 1.0), (Ended.ENVIRONMENT, 0.0, 4, 0.0),
        (Ended.TRUNCATED, 0.0, 4, -1.0), (Ended.CONTEXT, 0.0, 4, -1.0),
    ],
)  # fmt: skip
def test_rewards_by_hand(ended: Ended, verdict: float, tokens: int, reward: float) -> None:
    one = toy_trajectory([2] * tokens).but(ended=ended)
    found = BriefOrWrong(least=4, most=20)._judged(one, Judgement(verdict, Frozen(environment=verdict)))
    assert found.reward == pytest.approx(reward)
    failed = Judgement(Failed("broken"))
    assert BriefOrWrong()._judged(one, failed) is failed


def group(*rewards: float, void: int | None = None) -> Group:
    made = []
    for i, reward in enumerate(rewards):
        links = Frozen(invalid=1 if i == void else 0)
        made.append(toy_trajectory([2], name=f"t{i}").but(reward=reward, components=Frozen(environment=max(0.0, float(reward >= 1))), links=links))
    return Group("g", tuple(made))


def test_a_void_turn_takes_an_episode_out_of_mean_and_deviation() -> None:
    (kept,), dropped = WithoutVoidTurns(Everything()).keep([group(1.0, 0.0, -1.0, 0.0, void=2)], Key(0))
    assert [t.id for t in kept.trajectories] == ["t0", "t1", "t3"]
    assert dropped == []
    (row,) = GroupRelative().assign([kept], {})
    # rewards 1, 0, 0: mean 1/3, deviation sqrt(2)/3
    np.testing.assert_allclose([c.advantages[0] for c in row], [2**0.5, -(0.5**0.5), -(0.5**0.5)], rtol=1e-4)
    assert WithoutVoidTurns().keep([group(1.0, 0.0, void=1)], Key(0))[0] == []  # the rest is not mixed
    alone = group(0.0, void=0)
    assert WithoutVoidTurns().keep([alone], Key(0)) == ([], [alone])


def test_settings_and_micro_batches() -> None:
    assert (datamind.rollout.share, datamind.setting.group, datamind.environment.limit) == (0.2, 8, 10)
    assert datamind.objective["policy"].trust == dapo.objective["policy"].trust
    check_micro_batches(datamind)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(UserError):
        BriefOrWrong(least=10, most=10)
