"""A user's own Python: tasks, environments, rewards, parts."""

from __future__ import annotations

from tests import broken
from tests.bad_input.row import Row
from tests.broken import BATCHED

DRAWN = "return [Problem(f'p{i}', 'mine', text='go') for i in indices]"

CODE: list[Row] = [
    ("{train} --task t.py:task", "t.py, line 1: invalid syntax; fix the file", {"t.py": "def task(:\n"}),
    (
        "{train} --task t.py:task",
        "t.py cannot be imported: ModuleNotFoundError|nothing_here|line 2|fix",
        {"t.py": "\nimport nothing_here\n"},
    ),
    ("{train} --task t.py:task", 'unknown task "task" (did you mean tsk?)|t.py', {"t.py": "tsk = 3\n"}),
    ("{train} --task t.py:task", "t.py:task is of type int; it must be a gradus Task", {"t.py": "task = 3\n"}),
    ("{train} --task t.py:task", "t.py:task returned int; it must return a gradus Task", {"t.py": "def task():\n    return 3\n"}),
    ("{train} --task t.py:task", "raised KeyError: 'no' (t.py, line 2); fix", {"t.py": "def task():\n    raise KeyError('no')\n"}),
    ("{train} --task t.py:task", "raised SystemExit: 3 (t.py, line 2)", {"t.py": "def task():\n    raise SystemExit(3)\n"}),
    ("{train} --task t.py:task", "task mine has no problems for training", {"t.py": broken.task("return []", size=0)}),
    ("{train} --task t.py:task", "task mine|its source was asked for one problem for training, and gave []; its source", {"t.py": broken.task("return []")}),
    ("{train} --task t.py:task", "Source.draw raised KeyError: 'x' (t.py, line 9); fix", {"t.py": broken.task("raise KeyError('x')")}),
    ("{train} --task t.py:task", "the class World (t.py, line 19) itself; give", {"t.py": broken.world().replace("=World()", "=World")}),
    ("{train} --task t.py:task", "the class Source (t.py, line 5) itself; give", {"t.py": broken.task(DRAWN).replace("Source()", "Source")}),
    ("{train} --task t.py:task", "Source.draw (t.py, line 8) returned 1 problems for 8", {"t.py": broken.task(f"{DRAWN}[:1]", size=8)}),
    ("{train} --task t.py:task", "problem p for index 0 and for index 1|its own id for each index", {"t.py": broken.task(DRAWN.replace("f'p{i}'", "'p'"))}),
    ("{train} --task t.py:task", "the size of Source (t.py, line 5) is a str ('4')", {"t.py": broken.task(DRAWN, size="'4'")}),
    ("{train} --task t.py:task", "verifier <lambda> (t.py, line 12) cannot|(problem, completion)", {"t.py": broken.task(DRAWN, verify="lambda c: 1.0")}),
    (
        "{train} --task t.py:task",
        "`environment` of task mine is World, whose start (t.py, line 20) cannot be called|(self, problem, key, world)",
        {"t.py": broken.world().replace("(self, problem, key, world)", "(self, problem)")},
    ),
    ("{train} --task t.py:task", "problem p has neither text nor messages", {"t.py": broken.task("return [Problem('p', 'mine')]")}),
    (
        "{train} --task t.py:tsk",
        'unknown task "tsk" (did you mean task?); known: task. Looked',
        {"t.py": "from json import loads\ntask = 3\n"},
    ),
    ("{train} --task t.py:task", "the environment raised KeyError: 'x' (t.py, line 16)", {"t.py": broken.world("raise KeyError('x')")}),
    (
        "{train} --task t.py:task",
        "the environment gave 'on' in place of a Turn; return|(t.py, line 12)",
        {"t.py": broken.world("return 'on'")},
    ),
    ("{train} --task t.py:task", "could not start: ZeroDivisionError|(t.py, line 21)", {"t.py": broken.world(start="return 1 / 0")}),
    (
        "{train} --task t.py:task",
        "the environment's start gave None, which is not an episode|(t.py, line 19)",
        {"t.py": broken.world(start="pass")},
    ),
    ("{train} --reward r.py", '"r.py" is not of the form FILE.py:NAME', {"r.py": ""}),
    ("{train} --reward gone.py:score", "there is no file gone.py; check the path"),
    ("{train} --reward r.py:scor", 'unknown reward function "scor" (did you mean score?)|r.py', {"r.py": BATCHED + "pass\n"}),
    ("{train} --reward r.py:score", "r.py, line 3: invalid syntax; fix the file", {"r.py": "\n\nscore = = 3\n"}),
    ("{train} --reward r.py:score", "score is of type int; it must be a function", {"r.py": "score = 3\n"}),
    ("{train} --reward r.py:score", 'needs "colour", but the data have no such column (columns: answer)', {"r.py": "def score(colour): ...\n"}),
    ("{train} --reward r.py:score --reward.timeout 0", "`timeout` is 0.0; give the longest time of a call in seconds", {"r.py": BATCHED + "return []\n"}),
    (
        "{train} --reward r.py:score",
        "none of the 2 held-out answers|raised KeyError: 'no' (r.py, line 2)|Fix",
        {"r.py": BATCHED + "raise KeyError('no')\n"},
    ),
    ("{train} --reward r.py:score --study none", "4 of 4|returned 1 rewards for 4 completions", {"r.py": BATCHED + "return [1.0]\n"}),
    (
        "{train} --reward r.py:score --study none",
        "4 of 4|but the allowed share is 50%|returned nan",
        {"r.py": BATCHED + "return [float('nan')] * 4\n"},
    ),
    ("{train} --reward r.py:score --study none", "returned the text 'good' instead of a number", {"r.py": BATCHED + "return ['good'] * 4\n"}),
    (
        "{train} --reward r.py:score --study none --reward.timeout 0.5",
        "did not answer within 0.5 seconds, the limit that --reward.timeout sets",
        {"r.py": BATCHED + "while True: pass\n"},
    ),
    ("{train} --reward r.py:score", "ended with exit code 3", {"r.py": BATCHED + "import os; os._exit(3)\n"}),
    (
        "{train} --objective.policy.trust p.py:Mine",
        "Mine.losses raised ZeroDivisionError: integer division or modulo by zero (p.py, line 11); fix",
        {"p.py": broken.PART},
    ),
    ("eval {home}/run --reward r.py:scor", "did you mean score?", {"r.py": BATCHED + "pass\n"}),
]
