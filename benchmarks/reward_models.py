"""Reward models: accuracy and calibration from 2,000 pairs, over-optimisation against the true reward, and labels of steps.

    python -m benchmarks.reward_models [pairs] [curves] [steps]

pairs: a reward model learns from 2,000 pairs of answers of the built-in model, which the verifier ordered; it is judged on 256 held-out problems.
curves: on the ground gold_proxy, the proxy and the held-out accuracy of GRPO and of four methods that should resist over-optimisation: a larger
    KL coefficient, the lowest score of three judges, the filter of pf_ppo, and the best answers of the start model.
steps: labels of steps by continuations against the exact check of steps, and a process reward model that is trained on such labels.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import gradus
from gradus.comparison.starts import made
from gradus.credit.step_values import SPAN, VALUE
from gradus.grounds.gold_proxy import gold_proxy
from gradus.objectives.labelled_scores import LabelledScores
from gradus.objectives.ranking import MaxMargin
from gradus.recipe.core import Recipe
from gradus.recipe.registry import recipe as load_recipe
from gradus.rewards.combine import Lowest
from gradus.rewards.step_scores import scores_at_ends
from gradus.rewards.verified import Verified
from gradus.rollouts.checked_steps import CheckedSteps, check_of
from gradus.rollouts.spans import places
from gradus.rollouts.values import MonteCarloValues
from gradus.selection.filters import Best
from gradus.study.held_out import held_out_requests
from gradus.study.judged import auc, curve, peak_and_fall
from gradus.study.pair_accuracy import PairAccuracy
from gradus.training.plan import judged_by
from gradus.types import Frozen, Group
from gradus.types.signals import Values
from gradus.types.spans import Separated

ARMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "grpo": ("grpo", {}, 1),
    "grpo, KL 0.5": ("grpo", {"objective__kl__coefficient": 0.5}, 1),
    "grpo, lowest of 3 judges": ("grpo", {}, 3),
    "pf_ppo": ("pf_ppo", {}, 1),
    "rft, best of 8": ("rft", {"selection": Best()}, 1),
}
"""Name -> recipe, changed fields, and the number of judges. The lowest score of several judges is the reward (Coste et al., arXiv:2310.02743)."""

SMALL: dict[str, Any] = {"setting__prompts": 8, "setting__group": 4, "setting__learning_rate": 3e-4, "setting__eval_every": 0}
STEP = Separated(r" |=")  # the words of a chain of functions


def pairs() -> None:
    """Prints a row per loss."""
    print("| loss | pairs | pair accuracy | 95 % | calibration error | reward of best of 1, 2, 4, 8 |\n| --- | --- | --- | --- | --- | --- |")
    soft, plain = LabelledScores(fit="cross_entropy"), LabelledScores()
    losses = {"BradleyTerry": None, "MaxMargin": MaxMargin(), "LabelledScores, cross_entropy": soft, "LabelledScores, squared": plain}
    for name, term in losses.items():
        pair_row(name, term)


def pair_row(name: str, term: Any, steps: int = 90) -> None:
    """Prints the row of one loss; None is the loss of the recipe."""
    count = 0

    def counted(run: Any, metrics: Any, groups: Sequence[Group]) -> None:
        nonlocal count
        count += sum(int((g.rewards[:, None] > g.rewards[None, :]).sum()) for g in groups)

    changes: dict[str, Any] = {} if term is None else {"objective": Frozen(sampled=term)}
    run = gradus.train("reward_model", "arithmetic", task_options={"level": "2"}, steps=steps, study__problems=2, on_step=counted, **SMALL, **changes)
    pairs_judged, best = asyncio.run(PairAccuracy(problems=256).tables(run, run.recipe, run.world(run.recipe, "evaluate")))
    _, accuracy, low, high, error, _ = pairs_judged.rows[0]
    print(f"| {name} | {count:,} | {accuracy:.3f} | [{low:.3f}, {high:.3f}] | {error:.3f} | {', '.join(f'{row[3]:.3f}' for row in best.rows)} |", flush=True)


def curves(seeds: int = 3) -> None:
    """Prints a row per arm and seed, and the best-of-n curve of the start model."""
    print("| method | seed | proxy first, last | gold first | gold peak (step, KL) | gold last (KL) | fall |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name in ARMS:
        for seed in range(seeds):
            curve_row(name, seed)
    best_of_n()


def curve_row(name: str, seed: int, steps: int = 24) -> None:
    """Prints the row of one run on gold_proxy. The proxy is the reward of the run."""
    key, changes, count = ARMS[name]
    fields: dict[str, Any] = {"setting__learning_rate": 5e-4, "setting__prompts": 8, "setting__eval_every": 2}
    fields |= {"study__problems": 64, "study__greedy": False, "study__reward": Verified()} | changes
    run = gradus.train(judged(load_recipe(key), count), "arithmetic", task_options={"level": "2"}, steps=steps, seed=seed, **fields)
    points = curve(run.metrics)
    peak, fall = peak_and_fall(points)
    first, last = points[0], points[-1]
    print(
        f"| {name} | {seed} | {first.proxy:.2f}, {last.proxy:.2f} | {first.gold:.3f} | {peak.gold:.3f} ({peak.step}, {kl(peak.divergence)}) "
        f"| {last.gold:.3f} ({kl(last.divergence)}) | {fall:.3f} |",
        flush=True,
    )


def judge(seed: int = 0) -> str:
    """Returns the folder of the ground's judge, trained with another seed. Trains the judge if it does not exist yet."""
    assert gold_proxy.judge is not None
    return str(made(replace(gold_proxy.judge, seed=gold_proxy.judge.seed + seed), print))


def judged(recipe: Recipe, count: int) -> Recipe:
    """Returns the recipe with the lowest score of `count` judges as its reward. One judge is the ground's judge."""
    found = judged_by(recipe, [judge(n) for n in range(count)])
    return found.but(reward=Lowest(found.reward.parts)) if count > 1 else found


def best_of_n() -> None:
    """Prints the true reward of the start model's best answer of n by the judge's score."""
    run = gradus.train("grpo", "arithmetic", task_options={"level": "2"}, reward=judge(), steps=0, study=None)
    study = PairAccuracy(problems=64, samples=16, player="judge")
    world = run.world(run.recipe, "evaluate", Verified())
    _, found = asyncio.run(study.tables(run, run.recipe, world))
    print("best of n: " + ", ".join(f"n {row[0]:g} KL {row[1]:.2f} score {row[2]:.2f} gold {row[3]:.3f}" for row in found.rows))


def kl(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def labels(groups: Sequence[Group], texts: Any, right: Any) -> tuple[list[float], list[bool]]:
    """Returns the labels by continuations of all steps that have a further step, and whether the text up to the end of the step is right."""
    found: list[float] = []
    exact: list[bool] = []
    for t in (t for g in groups for t in g.trajectories):
        (context,) = t.contexts
        row, value = context.streams[SPAN], context.streams[VALUE]
        for number, at in list(zip(dict.fromkeys(row[row >= 0].tolist()), places(context, row), strict=True))[1:]:
            said = context.sequence[context.action_positions[context.action_positions < at]]
            text = texts(said)
            if text.strip(" ="):  # the mark of the result alone is no step
                found.append(float(value[row == number][0]))
                exact.append(bool(right(t.problem, text)))
    return found, exact


def label_row(letters: str, said: str, count: int) -> None:
    """Prints the row of labels by `count` continuations."""
    run = gradus.train("rloo", "flawed", task_options={"level": "3", "letters": letters}, steps=0, study=None)
    world = run.world(run.recipe, "rollout")
    requests = held_out_requests(run.task.source, 128, 4, run.task.level)
    groups = asyncio.run(MonteCarloValues(marking=STEP, count=count).run(requests, world))
    found, exact = labels(groups, lambda tokens: world.text(tokens, "policy"), check_of(run.task))
    print(f"| {count} continuations | {said} | {len(found)} | {np.mean(exact):.3f} | {auc(found, exact):.3f} |", flush=True)


def steps() -> None:
    """Prints a row per number of continuations, and the rows of trained process reward models."""
    print("| labels | checked in training | steps | right | AUC against the exact check |\n| --- | --- | --- | --- | --- |")
    for letters, said in (("99", "the whole result"), ("1", "its first letter")):
        for count in (4, 8, 32):
            label_row(letters, said, count)
    for name, rollout in (("8 continuations", MonteCarloValues(marking=STEP, count=8)), ("exact", CheckedSteps(marking=STEP))):
        options = {"level": "3", "letters": "99"}
        run = gradus.train("process_reward_model", "flawed", task_options=options, rollout__rollout=rollout, steps=100, study=None, **SMALL)
        world = run.world(run.recipe, "rollout")
        requests = held_out_requests(run.task.held_out, 64, 4, run.task.level)
        checked = replace(run.recipe.rollout, rollout=CheckedSteps(marking=STEP))
        groups = asyncio.run(checked.run(requests, world))
        signal = Values(player="policy")
        rows = asyncio.run(world.signals(groups, (signal,)))[signal]
        scores: list[float] = []
        truth: list[bool] = []
        for t in (t for g in groups for t in g.trajectories):
            row, value = t.stream(SPAN), t.stream(VALUE)
            ends = scores_at_ends(rows[t.id], row)
            starts = [float(value[row == n][0]) for n in dict.fromkeys(row[row >= 0].tolist())]
            scores += ends.tolist()
            truth += [v == 1 for v in [*starts[1:], t.value]]
        print(f"| process reward model from labels by {name} | the whole result | {len(scores)} | {np.mean(truth):.3f} | {auc(scores, truth):.3f} |", flush=True)


if __name__ == "__main__":
    for part in sys.argv[1:] or ["pairs", "curves", "steps"]:
        {"pairs": pairs, "curves": curves, "steps": steps}[part]()
