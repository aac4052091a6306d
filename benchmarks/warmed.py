"""A claim of a recipe from a start model of its own, or with a teacher of its own. Supervised fine-tuning on a task's worked solutions makes this model.

    python -m benchmarks.warmed prompt_mii                  # prints
    python -m benchmarks.warmed prompt_mii --write          # and stores the figures beside the claim
    python -m benchmarks.warmed prompt_mii --warm DIR       # takes the model of this folder as the start; it is made there if it does not exist

All terms of the claim hold, as for `gradus claims`; the start model alone is made here.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

import gradus
from gradus.comparison.claim_runs import measure, script_result
from gradus.comparison.claims import known
from gradus.lab.folder import RunFolder
from gradus.recipe.registry import recipe
from gradus.types import Frozen


@dataclass(frozen=True)
class Start:
    """The task, its options and the number of steps of the fine-tuning. A step has 32 solutions."""

    task: str
    options: Mapping[str, str] = field(default_factory=dict)
    steps: int = 300
    rate: float = 2e-3
    model: str | None = None  # the model before the fine-tuning; None: the task's built-in model
    like: str | None = None  # the recipe whose environment the fine-tuning plays; None: the task's own
    problems: int = 100  # held-out problems of its evaluations
    player: str | None = None  # the player of both arms that gets the model; None: it is the start model
    stage: str | None = None  # the stage of the recipe `like` whose changes the fine-tuning has; None: only its environment


RETRIES = Start("benchmarks/retries.py:retries", {}, 150, 1e-3, model="gradus/policies/tiny/base")
READING = Start("service_desk", {"level": "1", "fields": "2", "document": "true"}, 80, model="gradus/policies/tiny/base")
JUDGING = Start("arithmetic:1,checked:1", {}, 200, model="gradus/policies/tiny/base")
SCORING = Start("scoring", {"level": "1"}, 240, model="gradus/policies/tiny/base")
EXPLAINED = Start("explained", {}, 200, model="gradus/policies/tiny/base")
RETRYING = (
    "cog_rethinker",
    "cog_rethinker-accuracy",
    "critique_grpo",
    "critique_grpo-accuracy",
    "expo_self_explanation",
    "lanpo",
    "rlad",
    "thinktuning",
    "thinktuning-accuracy",
)
"""Recipes whose start model can use feedback."""

SEARCHING = Start("search_qa", {"level": "1", "instruction": "false"}, 200, model="gradus/policies/tiny/words", like="search_r1")

GUESSING = Start("benchmarks/guesses.py:guesses", {}, 200, model="gradus/policies/tiny/words", like="r1_searcher")
SEARCHED = Start(
    "search_qa", {"level": "1", "people": "40", "instruction": "false"}, 25, model="gradus/policies/tiny/words", like="r1_searcher", problems=16
)
KNOWING = Start(
    "search_qa", {"level": "1", "people": "60", "known": "0.5", "role": "start", "instruction": "false"}, 80, model="gradus/policies/tiny/words",
    like="ikea", problems=20,
)  # fmt: skip
"""A start model that knows half of the facts of a world, and that searches in some of its answers."""

PROGRAMS = Start("python_tool", {"level": "1", "instruction": "false"}, 200, model="gradus/policies/tiny/base")
SLIPPING = replace(PROGRAMS, options={**PROGRAMS.options, "slips": "0.5"})
"""Start models that were shown programs: right ones, or first one with a typing error in half of the cases."""

VERDICTS = Start("benchmarks/verdicts.py:verdicts", {"level": "2"}, 120, model="gradus/policies/tiny/base")

SERVING = Start("orders", {"level": "1", "instruction": "false"}, 80, model="gradus/policies/tiny/words", problems=32)
"""A start model that was shown dialogues with customers."""

PLANNING = Start("benchmarks/plans.py:plans", {"level": "1"}, 80, model="gradus/policies/tiny/base", problems=8)
"""A start model of a strategist that mostly plans at random, and of an agent that follows the plans."""

TUTORING = Start("tutor", {"level": "1", "skill": "0"}, 60, model="gradus/policies/tiny/base", problems=32)
"""A start model of a tutor that was shown hints, wrong hints, results and messages without help."""

REPAIRING = Start("code_repair", {"level": "2"}, 100, model="gradus/policies/tiny/base", problems=20)
"""A start model that was shown edits of programs with a fault."""

STARTS = {
    **dict.fromkeys(("epo", "epo-keys"), PLANNING),
    **dict.fromkeys(("pedagogical_rl", "pedagogical_rl-price", "pedagogical_rl-gain"), TUTORING),
    **dict.fromkeys(("mua_rl", "mua_rl-limit"), SERVING),
    **dict.fromkeys(("swe_rl", "swe_rl-tests"), REPAIRING),
    "perf_rrhf": Start("code_speed", {"level": "1"}, 40, model="gradus/policies/tiny/base"),
    "afterburner": Start("code_speed", {"level": "1", "form": "goal", "factor": "0"}, 70, model="gradus/policies/tiny/base"),
    "ledex": replace(REPAIRING, options={"level": "1", "form": "function", "reward": "share"}, steps=120),
    **dict.fromkeys(("ikea", "ikea-accuracy"), KNOWING),
    **dict.fromkeys(
        ("r1_searcher_plus", "r1_searcher_plus-memory"), replace(KNOWING, options={**KNOWING.options, "people": "12"}, like="r1_searcher_plus", problems=4)
    ),
    "tapo_tool": Start(
        "search_qa", {"level": "1", "people": "40", "calculator": "true", "instruction": "false"}, 100, model="gradus/policies/tiny/words", like="tapo_tool"
    ),
    **dict.fromkeys(
        ("aries_thought_graph", "aries_thought_graph-accuracy", "aries_thought_graph-single"),
        Start("benchmarks/lists.py:lists", {}, 150, model="gradus/policies/tiny/base"),
    ),
    **dict.fromkeys(("artist", "artist-ran"), replace(SLIPPING, like="artist")),
    **dict.fromkeys(("rl_tango", "rl_tango-final"), VERDICTS),
    **dict.fromkeys(
        ("critique_rl", "critique_rl-limit"), Start("benchmarks/critiques.py:critiques", {"level": "2"}, 120, model="gradus/policies/tiny/base")
    ),
    **dict.fromkeys(("magrpo", "magrpo-limit"), Start("benchmarks/pairs.py:pairs", {}, 60, model="gradus/policies/tiny/base")),
    "m_grpo": Start("research", {"people": "40", "level": "1"}, 45, 1.5e-3, problems=10),
    "deeptheorem": Start("theorems", {}, 20, model="gradus/policies/tiny/base"),
    "deeptheorem-sft": Start("theorems", {}, 20, model="gradus/policies/tiny/base"),
    "molreasoner": Start("molecules", {"level": "3"}, 60, model="gradus/policies/tiny/base"),
    "ci_rl": Start("privacy", {"open": "0.5"}, 150, model="gradus/policies/tiny/base"),
    "ci_rl-utility": Start("privacy", {"open": "0.5"}, 150, model="gradus/policies/tiny/base"),
    "ci_rl-unseen": Start("privacy", {"open": "0.5", "unseen": "clinic"}, 150, model="gradus/policies/tiny/base"),
    "con_rag_ps_grpo": Start("paraphrased", {}, 80, model="gradus/policies/tiny/base"),
    "con_rag_ps_grpo-accuracy": Start("paraphrased", {}, 80, model="gradus/policies/tiny/base"),
    "eag_rl": Start("patients", {"level": "2"}, 40, model="gradus/policies/tiny/base"),
    "eag_rl-limit": Start("patients", {"level": "2"}, 40, model="gradus/policies/tiny/base"),
    "kdrl": Start("arithmetic", {"level": "3"}, 50, 3e-4, player="teacher"),
    "kdrl-alone": Start("arithmetic", {"level": "3"}, 50, 3e-4, player="teacher"),
    "mathsmith": Start("forging", {}, 100, model="gradus/policies/tiny/base"),
    "multirole_r1": Start("dilemmas", {}, 60, model="gradus/policies/tiny/base"),
    "multirole_r1-accuracy": Start("dilemmas", {}, 60, model="gradus/policies/tiny/base"),
    "per_step_dpo": Start("arithmetic", {"level": "5"}, 30, 3e-4),
    "pretrain_zero": Start("masked_text", {"role": "both", "level": "1"}, 150),
    "prompt_mii": Start("induction", {"role": "both", "level": "2"}, 500, model="gradus/policies/tiny/base"),
    "prompt_mii-words": Start("induction", {"role": "both", "level": "2"}, 200, model="gradus/policies/tiny/words"),
    **dict.fromkeys(("pdr", "pdr-majority", "pdr-training"), replace(RETRIES, options={"short": "0.6"})),
    **dict.fromkeys(("self_prm", "self_prm-precision", "self_prm-vote", "self_prm-tokens"), JUDGING),
    "self_verify": Start("arithmetic:1,checked:1", {}, 60, model="gradus/policies/tiny/base"),
    "self_verify-vote": Start("arithmetic:1,checked:1", {}, 60, model="gradus/policies/tiny/base"),
    "spct_grm": SCORING,
    "trimpi": READING,
    "trimpi-accuracy": READING,
    "truthrl": Start("facts", {"documents": "40", "known": "0.5", "role": "start"}, 80, model="gradus/policies/tiny/base"),
    "wirelessmath_lm": Start("channels", {"level": "2"}, 60, model="gradus/policies/tiny/base"),
    "r1_t1": Start("translation", {"level": "1", "form": "tags"}, 60),
    **dict.fromkeys(("rgr_grpo", "rgr_grpo-reward"), Start("benchmarks/rewrites.py:rewrites", {"level": "3"}, 200, model="gradus/policies/tiny/base")),
    "rlpt": Start("segments", {"level": "1"}, 60, model="gradus/policies/tiny/base"),
    "sirl": Start("optimisation", {"level": "2"}, 100, model="gradus/policies/tiny/base"),
    "datamind": Start("python_tool", {"level": "1", "instruction": "false"}, 120, model="gradus/policies/tiny/base", like="datamind"),
    "think2sql": Start("text2sql", {"level": "5"}, 80, model="gradus/policies/tiny/base"),
    "reex_sql": Start("text2sql", {"hidden": "true"}, 50, model="gradus/policies/tiny/base", like="reex_sql"),
    "reasoning_sql": Start("text2sql", {"level": "2"}, 60, model="gradus/policies/tiny/base"),
    "reform_dafny": Start("specifications", {"level": "2"}, 80, model="gradus/policies/tiny/base"),
    **dict.fromkeys(("r1_searcher-limit", "rex_rag-limit", "stepsearch-limit"), SEARCHED),
    **dict.fromkeys(("r1_searcher", "r1_searcher-stages", "rex_rag", "rex_rag-accuracy", "stepsearch"), GUESSING),
    "aepo-limit": Start("search_qa", {"level": "1", "people": "40", "calculator": "true"}, 20, model="gradus/policies/tiny/words", problems=20),
    "deepdive": Start("walks", {"level": "2", "instruction": "false"}, 150, model="gradus/policies/tiny/words", like="deepdive"),
    **dict.fromkeys(
        ("router_r1", "router_r1-accuracy"), Start("benchmarks/routes.py:routes", {}, 120, model="gradus/policies/tiny/words", like="router_r1")
    ),
    "deepdive-limit": Start("walks", {"level": "1", "people": "200", "instruction": "false"}, 20, model="gradus/policies/tiny/words", problems=8),
    "s3": Start("benchmarks/bridges.py:bridges", {"top": "2"}, 120, model="gradus/policies/tiny/words"),
    **dict.fromkeys(("search_r1", "zerosearch", "zerosearch-noise"), SEARCHING),
    **dict.fromkeys(
        ("r1_code_interpreter", "r1_code_interpreter-choice"), replace(PROGRAMS, options={**PROGRAMS.options, "words": "0.5"}, like="r1_code_interpreter")
    ),
    "rstar2_agent": replace(SLIPPING, like="rstar2_agent"),
    "chain_of_agents": Start(
        "search_qa", {"level": "2", "instruction": "false"}, 150, model="gradus/policies/tiny/words", like="chain_of_agents", problems=16, stage="sft"
    ),
    **dict.fromkeys(("thor", "thor-repair"), replace(SLIPPING, like="thor")),
    "retool": replace(PROGRAMS, like="retool"),
    "torl": replace(PROGRAMS, like="torl"),
    "semantic_reward_grpo": EXPLAINED,
    "semantic_reward_grpo-overlap": EXPLAINED,
    "shop_r1": Start("shop", {"level": "2"}, 60, model="gradus/policies/tiny/base"),
    "time_r1": Start("dates", {"kinds": "difference,ordering", "level": "2"}, 100, model="gradus/policies/tiny/base"),
    "timehc_rl": Start("beliefs", {}, 100, model="gradus/policies/tiny/base"),
    **dict.fromkeys(RETRYING, RETRIES),
    **dict.fromkeys(
        ("wayuu_dict_grpo", "wayuu_dict_grpo-aimed"), Start("phrasebook", {"level": "1"}, 100, model="gradus/policies/tiny/base", like="wayuu_dict_grpo")
    ),
    "webscale_rl": Start("facts", {"documents": "200", "seed": "1"}, 100, model="gradus/policies/tiny/base"),
}
"""Recipe -> its start model. After a hyphen: another claim of the same recipe."""


def model(start: Start, folder: Path) -> str:
    """Returns the folder of the start model. It is trained if `folder` does not exist."""
    if not folder.exists():
        sft, like = recipe("sft"), None if start.like is None else recipe(start.like)
        changes = {} if like is None else {"environment": like.environment} if start.stage is None else like.schedule.stages[start.stage].changes
        gradus.train(
            sft.but(**changes),
            task=start.task, task_options=start.options, steps=start.steps, run=folder, model=start.model,
            setting__learning_rate=start.rate, setting__prompts=4, setting__group=8, setting__eval_every=0, study__problems=start.problems,
        )  # fmt: skip
    found = RunFolder.open(folder).model("final")
    if found is None:
        raise SystemExit(f"the run {folder} has no final model")
    return str(Path(found).resolve())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("key", choices=sorted(STARTS))
    parser.add_argument("--warm", type=Path, help="folder of the start model; without it the model is made and not kept")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    program = f"benchmarks.warmed {options.key}"
    key = options.key.partition("-")[0]
    of = next(of for of in known([key]) if of.claim.script == program)
    with tempfile.TemporaryDirectory() as folder:
        warm = model(STARTS[options.key], options.warm or Path(folder) / "warm")
        player = STARTS[options.key].player
        fields = of.claim.fields if player is None else Frozen({**of.claim.fields, f"players.{player}.model": warm})
        claim = replace(of.claim, script=None, model=warm if player is None else of.claim.model, fields=fields)
        figures = measure(of._replace(claim=claim), Path(folder))
    print(json.dumps(figures))
    if options.write:
        print(script_result(key, program, figures))


if __name__ == "__main__":
    main()
