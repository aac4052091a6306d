"""Claims: words that name none, options that do not belong together, and claims in a recipe's file whose terms contradict each other."""

from __future__ import annotations

from tests.bad_input.row import Row

OWN = """from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim

mine = grpo.derive("mine", "Mine.", credit__scale="none")
claims = (Claim(says="It learns faster.", source="ours", task="arithmetic", TERMS),)
"""


def claim(terms: str) -> dict[str, str]:
    return {"p.py": OWN.replace("TERMS", terms)}


CLAIMS: list[Row] = [
    ("claims grop", 'unknown recipe "grop" (did you mean grpo|gradus claims'),
    ("claims --family base", 'unknown family "base" (did you mean bases|--family'),
    ("claims m2po:9", "m2po:9: m2po has 2 claims; give m2po:1 to m2po:2"),
    ("claims m2po --why more", "--why explains exactly one claim; name this claim"),
    ("claims m2po --fresh", "--fresh has an effect only with --run; add --run"),
    ("claims m2po --parallel 2", "--parallel has an effect only with --run; add --run"),
    ("claims prompt_pg --run", "has its own measuring program|python -m benchmarks.prompt_pg --write"),
    ("train p.py:mine --run run", "p.py, line 5|has no bound; give exactly one of better_by", claim('against="grpo"')),
    ("train p.py:mine --run run", "has better_by and at_most; give exactly one", claim('against="grpo", better_by=0.1, at_most=0.5')),
    ("train p.py:mine --run run", "has the bound `at_most`, which compares with another arm; name this arm", claim("at_most=0.5")),
    ("train p.py:mine --run run", "has only one seed, which gives no interval; set `seeds` to 2", claim('against="grpo", better_by=0.1, seeds=1')),
    ("train p.py:mine --run run", "names the ground stale and also a task|leave out the ground, or", claim('against="grpo", better_by=0.1, ground="stale"')),
    (
        "train p.py:mine --run run",
        "sets group both in `fields` and in `own`; set group in only one of them",
        claim('against="grpo", better_by=0.1, fields={"group": "4"}, own={"group": "8"}'),
    ),
]
