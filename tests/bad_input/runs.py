"""Folders of runs that are taken, broken, or not there."""

from __future__ import annotations

from tests import broken
from tests.bad_input.row import Row
from tests.broken import ROWS

RUNS: list[Row] = [
    ("{train}", "run already contains a run; resume the run with gradus resume run, or name another", {"run": broken.run()}),
    ("{train}", "run contains files but no run; name another folder", {"run/notes.txt": "mine"}),
    ("{train}", "cannot make the run folder run: File exists; name another", {"run": "a file"}),
    ("{train} --run a/run", "cannot make the run folder a/run: Not a directory; name another", {"a": "a file"}),
    ("resume run --until never", '--until is "never"; write a duration', {"run": broken.run()}),
    ("check --task d.jsonl --quarantine q.txt", '--quarantine is "q.txt"; name a file that ends in .jsonl', {"d.jsonl": ROWS + "[1]\n"}),
    ("resume gone", "gone contains no run, because the file recipe.json is missing; give the folder"),
    ("resume a", "a contains no run, because", {"a/notes.txt": "mine"}),
    ("resume run", "run/recipe.json cannot be read as JSON|restore the old file", {"run": broken.run(recipe__json=broken.cut)}),
    ("resume run", "run/recipe.json does not fit this version|'task_options'", {"run": broken.run(recipe__json="{}")}),
    ("resume run", "run/recipe.json contains a list", {"run": broken.run(recipe__json="[]")}),
    (
        "resume run",
        'uses "gradus.credit.groups:Gone"|version',
        {"run": broken.run(recipe__json=broken.recipe(credit={"part": "gradus.credit.groups:Gone"}))},
    ),
    (
        "resume run",
        '"os:system", but no installed package offers this part',
        {"run": broken.run(recipe__json=broken.recipe(credit={"part": "os:system"}))},
    ),
    ("resume run", "Recipe that this version|'new'", {"run": broken.run(recipe__json=broken.recipe(new=3))}),
    (
        "resume run --trust",
        "uses Mine from|part.py, which has changed since the run began; restore the old text of the file",
        {"part.py": "", "run": broken.run(recipe__json=broken.recipe(credit={"part": {"file": "part.py", "name": "Mine", "sha256": "0"}}))},
    ),
    ("resume run --steps 3", "there is no file /gone.jsonl", {"run": broken.run(recipe__json=broken.fields(task="/gone.jsonl"))}),
    ("resume run --steps 3", 'model folder "/gone" does not exist', {"run": broken.run(recipe__json=broken.fields(model="/gone"))}),
    ("resume run --steps 3", "run/metrics.jsonl, line 1 is not a record of a step", {"run": broken.run(metrics__jsonl="{}\n")}),
    ("resume run --steps 3", "run/provenance.json cannot be read as JSON", {"run": broken.run(provenance__json="{")}),
    ("eval run", "is broken (model/model.safetensors has|use another checkpoint", {"run": broken.run(final=broken.weightless)}),
    ("eval run", "has no complete checkpoint|gradus resume run", {"run": broken.run(checkpoints=None, final=None, best=None)}),
    ("export run m", "m exists already; name another folder", {"run": broken.run(), "m/notes.txt": "mine"}),
    ("export run a/m", "cannot write the model to a/m: Not a directory; name another", {"run": broken.run(), "a": "a file"}),
    ("export run m --as card", "m is not a folder, but --as card needs an exported model|gradus export run m", {"run": broken.run()}),
    ("export run m --as card", "README.md was written or edited|--as card --replace", {"run": broken.run(), "m/README.md": "mine"}),
    ("export run m --replace", "--replace works only with --as card, for an edited card", {"run": broken.run()}),
    ("export gone m", "gone contains no run; give the folder"),
    ("export run m", "has no checkpoint yet|gradus resume run", {"run": broken.run(checkpoints=None, final=None, best=None)}),
]
