"""Comparisons that cannot be made: all are refused before anything runs, and nothing is written."""

from __future__ import annotations

import json

from tests.bad_input.row import Row

HERE = {"task": None, "model": None, "profile": None, "measure": "accuracy", "problems": 200, "samples": 4, "device": "cpu", "task_options": [], "fields": []}
OTHER = json.dumps({"arms": [{"name": "rloo", "recipe": "rloo", "fields": []}], "seeds": [0], "budget": ["steps", 20, 10], **HERE})

COMPARISONS: list[Row] = [
    ("compare", "RECIPE|gradus compare --help"),
    ("compare grpo rlo", 'unknown recipe "rlo" (did you mean rloo'),
    ("compare grpo grpo", "the arm grpo is given twice; give each arm once"),
    ("compare grpo 'rloo --group'", "the arm 'rloo --group' cannot be read at --group, because a field needs a name with -- and a value"),
    ("compare grpo rloo --objective.policy.trust.high 0.3", "rloo: |objective.policy.trust|remove"),
    ("compare grpo papo --prompts 2", "papo: |task"),
    ("compare grpo rloo --seeds three", '--seeds is "three"; write a number of seeds, such as 3'),
    ("compare grpo rloo --seeds 1,1", "the seed 1 is given twice; give each seed once"),
    ("compare grpo rloo --budget 200", '--budget is "200"; write steps=N or'),
    ("compare grpo rloo --budget token=200", 'the unit of a budget is "token"; it must be one of'),
    ("compare grpo rloo --budget seconds=5 --parallel 2", "--parallel is 2, but a budget of seconds needs one run at a time|leave --parallel out"),
    ("compare grpo rloo --measure acuracy", 'unknown measure "acuracy" (did you mean accuracy'),
    ("compare grpo rloo --measure entropy:end", 'unknown reading "end"|entropy:end'),
    ("compare grpo rloo --reward gone.py:f", "there is no file gone.py"),
    ("compare grpo rloo --reward mine.py:scor", 'unknown reward function "scor"|mine.py', {"mine.py": "def score(completions):\n    return [0.0]\n"}),
    ("compare grpo rloo --run run", "run contains files but no comparison; name another folder with --run", {"run/notes.txt": "mine"}),
    ("compare grpo rloo --run run", "run contains a comparison that differs in arms, seeds", {"run/experiment.json": OTHER}),
    ("compare grpo rloo --run run", "run/experiment.json cannot be read", {"run/experiment.json": "{}"}),
    ("compare grpo rloo --ground stael", 'unknown ground "stael"|gradus grounds'),
    ("compare grpo rloo --ground stale --task arithmetic", "the ground stale has its own task; leave out --task"),
]
