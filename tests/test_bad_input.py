"""What people get wrong: told in one sentence that says what, where and what to do, with exit code 2, and nothing is written."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from gradus.cli import main
from gradus.lab.folder import RunFolder
from gradus.rewards.pool import stop_workers
from tests import broken, mistakes
from tests.broken import BATCHED, ROWS, Make
from tests.small_model import save_small_model

TRAIN = (
    "train grpo --task {home}/problems.jsonl --model {home}/model --run run "
    "--steps 1 --prompts 2 --group 2 --max_tokens 4 --study.problems 2"
)

# every row: words typed, what the sentence must contain (split at |), and the files that lie in the folder where they are typed
Row = tuple[str, str] | tuple[str, str, Mapping[str, "str | bytes | Make"]]

NAMES: list[Row] = [
    ("trian grpo", 'unknown command "trian" (did you mean train?)|gradus --help'),
    ("train", "RECIPE|gradus train --help"),
    ("train grop", 'unknown recipe "grop" (did you mean grpo|gradus papers'),
    ("show gpro", 'unknown recipe "gpro" (did you mean gspo or grpo|gradus papers'),
    ("diff grpo rlo", 'unknown recipe "rlo" (did you mean rloo'),
    ("diff grpo", "required: B|gradus diff --help"),
    ("papers --family bsae", 'unknown family "bsae" (did you mean bases?)'),
    ("papers --familly bases", 'unknown option "--familly" (did you mean --family?)|gradus papers --help'),
    ("show mine.py", "mine.py|FILE.py:NAME|write the file, a colon"),
    ("show gone.py:mine", "there is no file gone.py|check the path"),
    ("show mine.py:mne", 'unknown recipe "mne" (did you mean mine?)|mine.py', {"mine.py": "mine = 3\n"}),
    ("train mine.py:mine", "mine.py:mine is of type int, not a Recipe|derive", {"mine.py": "mine = 3\n"}),
    ("train mine.py:mine", "mine.py, line 2: '(' was never closed; mend the file", {"mine.py": "\nmine = (\n  3,,\n"}),
    ("{train} --task arithmetics", 'unknown task "arithmetics" (did you mean arithmetic?)|A task is also a file'),
    ("{train} --task gone.jsonl", "there is no file gone.jsonl|check the path"),
    ("{train} --task gone.py:task", "there is no file gone.py|check the path"),
    ("{train} --task gone.txt", 'unknown task "gone.txt"'),
    ("{train} --profile tinny", 'unknown profile "tinny" (did you mean tiny?)|--profile'),
    ("{train} more", 'gradus train takes no further word, but "more" was given|gradus train --help'),
    ("{train} --batch_size 4", 'unknown option "--batch_size"; it is --prompts here'),
    ("{train} --beta 0.1", 'unknown option "--beta"; it is --objective.kl.coefficient here'),
    ("{train} --log tensorbord", 'unknown place for metrics "tensorbord" (did you mean tensorboard?)|--log'),
    ("{train} --log ,", '--log is ",", which names no place for metrics; give some of tensorboard'),
    ("explain objective.polcy.trust", 'unknown field "polcy" (did you mean policy?)|In "objective"'),
    ("explain task.levl --task string_ops", 'unknown option "--task.levl" (did you mean --task.level'),
    ("check --samples -1", "--samples is -1; give how many problems"),
    ("cite grop", 'unknown recipe "grop" (did you mean grpo'),
    ("completion csh", "SHELL|'csh'|gradus completion --help"),
    ("{train} --grup 4", 'unknown option "--grup" (did you mean --group|gradus show grpo'),
    ("{train} --setting.grop 4", 'unknown field "grop" (did you mean group|In "setting"'),
    ("{train} --task.prompt_colum q", 'unknown option "--task.prompt_colum" (did you mean --task.prompt_column'),
    ("{train} --task string_ops --task.levl 2", 'unknown option "--task.levl" (did you mean --task.level'),
    ("{train} --objective.polcy.trust Clip", 'unknown field "polcy" (did you mean policy?)|In "objective"'),
    ("{train} --objective.policy.trust.hgh 1", 'unknown field "hgh" (did you mean high?)'),
    ("{train} --objective.policy.trust Clp", 'unknown part "Clp" (did you mean Clip|--objective.policy.trust|file.py:Class'),
    ("{train} --objective.policy.trust 'Clip(hgh=1)'", 'unknown field "hgh" (did you mean high?)|Clip(hgh=1)'),
    ("{train} --objective.policy.trust 'Clip(high='", "write the part as Clip or Clip(field=value)"),
    ("{train} --objective.policy.trust 'Clip(0.3)'", "name every value, as in Clip(low=..., high=...)"),
    ("{train} --objective.policy.trust gone.py:Mine", "there is no file gone.py"),
    (
        "{train} --objective.policy.trust p.py:Mine",
        "'width'; give every field a default",
        {"p.py": "class Mine:\n    def __init__(self, width): ...\n"},
    ),
    ("{train} --players.reference.evry 2", 'unknown field "evry" (did you mean every?)'),
    ("{train} --players.reference.model 'Copy(of=\"polcy\")'", 'unknown player "polcy" (did you mean policy?)|reference'),
    ("{train} --precision float12", 'unknown precision "float12" (did you mean float32|float64'),
    ("{train} --credit.scale stdd", 'unknown value "stdd"|population|--credit.scale'),
    ("{train} --device gpu", '--device is "gpu"; write cpu, cuda'),
    ("leaks arithmetic --problems 0", "--problems is 0"),
    ("leaks arithmetic --allow nan", "--allow is nan"),
    ("eval gone --task arithmetic", 'there is no folder "gone"|give the folder of a model'),
    ("eval {home}/model", "name one with --task"),
    ("eval {home}/run --max_tkens 3", 'unknown option "--max_tkens" (did you mean --max_tokens'),
]

NUMBERS: list[Row] = [
    ("{train} --steps -1", "--steps is -1; it must be 0 or more"),
    ("{train} --steps x", '--steps is "x"; it must be a whole number'),
    ("{train} --steps 1.5", '--steps is "1.5"; it must be a whole number'),
    ("{train} --seed -1", "--seed is -1; it must be at least 0"),
    ("{train} --seed 99999999999999999999", "--seed|less than 2^64"),
    ("{train} --setting.group 0", "group is 0; it must be 1 or more"),
    ("{train} --prompts -3", "prompts is -3; it must be 1 or more"),
    ("{train} --prompts 1.5", '--setting.prompts is "1.5"; it must be a whole number'),
    ("{train} --temperature -1", "temperature is -1.0; it must be 0 or more"),
    ("{train} --temperature inf", "temperature is inf; it must be finite"),
    ("{train} --max_tokens 0", "max_tokens is 0; it must be 1 or more"),
    ("{train} --learning_rate abc", '--setting.learning_rate is "abc"; it must be a number'),
    ("{train} --learning_rate nan", "learning_rate is nan; it must be finite, and 0 or more"),
    ("{train} --learning_rate=-1e-3", "learning_rate is -0.001; it must be 0 or more"),
    ("{train} --learning_rate --steps 3", "--learning_rate has no value; write --learning_rate VALUE"),
    ("{train} --keep 0", "keep is 0; it must be 1 or more"),
    ("{train} --max_failed 2", "max_failed is 2.0; it must lie in [0, 1]"),
    ("{train} --temperature 0,5", '--setting.temperature is "0,5"; it must be a number or none'),
    ("{train} --learning_rate 1e-5x", '--setting.learning_rate is "1e-5x"; it must be a number'),
    ("{train} --until 8x", '--until is "8x"; write how long the run may take|1h30m'),
    ("{train} --until 8", '--until is "8"; write how long the run may take|30m'),
    ("{train} --memory 6XB", 'memory is "6XB"; write a size such as 6GB'),
    ("{train} --task.bad_rows 2", "--task.bad_rows is 2.0; it is the share of rows that may be bad, 0 to 1"),
    ("{train} --task.bad_rows some", '--task.bad_rows is "some"; it must be a number'),
    ("{train} --optimizer.betas 0.9", "betas is (0.9,); it must be two numbers"),
    ("{train} --optimizer.betas 0.9,1", "betas is (0.9, 1); it must lie in [0, 1)"),
    ("{train} --optimizer.clip 0", "clip is 0.0; it must be above 0"),
    ("{train} --update.epochs 0", "epochs is 0; it must be 1 or more"),
    ("{train} --players.reference.every 0", "every is 0; it must be 1 or more"),
    ("{train} --study.problems 0", "problems is 0; it must be 1 or more"),
    ("{train} --objective.policy.trust.high -1", "high is -1.0; it must be 0 or more"),
    ("{train} --objective.policy.coefficient nan", "objective.policy.coefficient is nan|--objective.policy.coefficient"),
    ("{train} --task string_ops --task.level 99", "levels 1 to 8, not 99; choose one of them"),
    ("{train} --task string_ops --task.level high", '--task.level is "high"; it must be a whole number'),
    ("eval {home}/run --pass-at 0", '--pass-at is "0"; write whole numbers from 1 on'),
    ("eval {home}/run --samples 2 --pass-at 4", "pass@4 needs at least 4 samples|raise --samples"),
    ("eval {home}/run --problems 0", "--problems is 0; give at least one"),
    ("eval {home}/run --seed -1", "--seed is -1"),
    ("resume {home}/run --steps 1", "--steps is 1, but|has done 2 steps already; give at least as many"),
]

PARTS: list[Row] = [
    ("{train} --objective.value ValueLoss", 'objective.value reads Values of player "critic"|add it to players'),
    ("{train} --credit GAE", 'credit reads Values of player "critic"|add it to players'),
    ("{train} --credit Clip", "credit cannot be Clip, which lacks assign; set a part that fits with --credit"),
    ("{train} --objective.policy.average Clip", "objective.policy.average cannot be Clip, which lacks coefficients"),
    ("{train} --objective.policy.trust none", "objective.policy.trust is empty; set a Trust with --objective.policy.trust"),
    ("{train} --objective Clip", "objective cannot be Clip|--objective"),
    ("{train} --players.reference Clip", "players.reference cannot be Clip, which lacks Player"),
    ("{train} --players.reference none", 'objective.kl reads LogProbs of player "reference"|add it to players'),
    ("{train} --credit none", "recipe grpo has no credit; set a rule with --credit"),
    ("{train} --optimizer none", "recipe grpo has no optimizer; set one with --optimizer AdamW"),
    ("{train} --rollout none", "recipe grpo has no rollout; set one with --rollout"),
    ("{train} --setting none", "recipe grpo has no setting"),
    ("{train} --study Clip", "study cannot be Clip, which lacks measure"),
    ("{train} --rollout Episodes", 'task "problems" has no environment'),
    ("{train} --reward.timeot 4", 'unknown field "timeot" (did you mean timeout'),
    ("train ppo --players.critic none --task {home}/problems.jsonl --model {home}/model --run run", 'player "critic"|add it to players'),
    ("train flow_grpo --task arithmetic --run run", "flow_grpo trains a policy of kind flow, task arithmetic is for lm; choose another"),
    ("train grpo --task flow_2d --run run", "grpo trains a policy of kind lm, task flow_2d is for flow; choose another"),
    ("train flow_grpo --task flow_2d --model {home}/model --run run", "config.json|qwen2|choose another model or task"),
    ("train sft --task {home}/problems.jsonl --run run", "sft needs problems with solution|add them as columns or choose another task"),
    ("train scaf_grpo --task {home}/problems.jsonl --run run", "scaf_grpo needs problems with hints|add them as columns"),
    ("train gigpo --task {home}/problems.jsonl --model {home}/model --run run", "has no environment|take a task of many turns"),
    ("{train} --requires hints,solution", "needs problems with hints, solution, which task problems does not provide"),
    ("{train} --task {home}/unanswered.jsonl", 'no answers; add a column "answer"|--reward'),
    ("eval {home}/model --task {home}/unanswered.jsonl", "no answers|--reward"),
]

MODELS: list[Row] = [
    ("{train} --model Qwen/Qwen2.5-0.5B", 'no folder "Qwen/Qwen2.5-0.5B"|hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B|--model Qwen2.5-0.5B'),
    ("{train} --model {home}/problems.jsonl", "problems.jsonl\" is a file; give the folder that holds config.json"),
    ("{train} --model m", 'model folder "m" has no model.safetensors; give a folder', {"m": broken.model(model__safetensors=None)}),
    ("{train} --model gone", 'model folder "gone" does not exist; give a folder'),
    ("{train} --model m", 'model "m" is a file; give the folder', {"m": "weights"}),
    ("{train} --model m", 'model folder "m" has no config.json; give a folder', {"m/notes.txt": "nothing"}),
    ("{train} --model m", "m/pytorch_model.bin holds pickled weights|save the model as safetensors", {"m": broken.pickled}),
    ("{train} --model m", "m/model.safetensors is not a whole safetensors file|copy", {"m": broken.model(model__safetensors=broken.cut)}),
    ("{train} --model m", "tensor model.norm.weight holds NaN", {"m": broken.model(model__safetensors=broken.not_a_number)}),
    ("{train} --model m", "m/config.json, line 1, column 2: not valid JSON|save", {"m": broken.model(config__json="{")}),
    ("{train} --model m", "m/config.json holds a list", {"m": broken.model(config__json="[]")}),
    ("{train} --model m", 'model folder "m"|`nonsense`', {"m": broken.model(config__json=broken.fields(model_type="nonsense"))}),
    ("{train} --model m", "m/config.json: hidden_size is -1|positive", {"m": broken.model(config__json=broken.fields(hidden_size=-1))}),
    ("{train} --model m", "layer_types has 2 entries|num_hidden_layers is 3", {"m": broken.model(config__json=broken.fields(num_hidden_layers=3))}),
    ("{train} --model m", "[98, 32], config.json asks for [50, 32]", {"m": broken.model(config__json=broken.fields(vocab_size=50))}),
    ("{train} --model m", 'model folder "m" has no tokenizer.json; save its tokenizer', {"m": broken.model(tokenizer__json=None)}),
    ("{train} --model m", "m/tokenizer.json cannot be read|save", {"m": broken.model(tokenizer__json=broken.cut)}),
    ("{train} --model m", "chat template, line 1|mend chat_template", {"m": broken.model(chat_template__jinja="{% for m in")}),
    ("{train} --model m", "m/adapter_config.json: base_model_name_or_path|set it", {"m/adapter_config.json": "{}"}),
    ("{train} --players.reference.model gone", 'model folder "gone" does not exist'),
]
if not torch.cuda.is_available():
    MODELS += [("{train} --device cuda", "--device is cuda, which PyTorch cannot use here|take --device cpu")]

DATA: list[Row] = [
    (
        "{train} --task d.jsonl",
        "d.jsonl, line 3: not valid JSON at character 35|one JSON object",
        {"d.jsonl": ROWS + '{"prompt": "say 3", "answer": "3",}\n'},
    ),
    (
        "{train} --task d.jsonl",
        "d.jsonl, line 3: byte 16 is not UTF-8; save",
        {"d.jsonl": (ROWS + '{"prompt": "caf\u00e9"}\n').encode("latin-1")},
    ),
    ("{train} --task d.jsonl", 'd.jsonl, line 3: "prompt" is missing; every row needs one', {"d.jsonl": ROWS + '{"answer": "3"}\n'}),
    ("{train} --task d.jsonl", 'd.jsonl, line 3: "prompt" is a number; it must be text', {"d.jsonl": ROWS + '{"prompt": 3}\n'}),
    ("{train} --task d.jsonl", 'd.jsonl, line 3: "prompt" is empty; write a prompt', {"d.jsonl": ROWS + '{"prompt": " "}\n'}),
    ("{train} --task d.jsonl", "d.jsonl, line 3: not valid JSON: NaN is not JSON, write null", {"d.jsonl": ROWS + '{"prompt": "a", "answer": NaN}\n'}),
    ("{train} --task d.jsonl", "d.jsonl, line 3: not valid JSON at character 2|one JSON object", {"d.jsonl": ROWS + "{'prompt': 'a'}\n"}),
    ("{train} --task d.jsonl", "d.jsonl, line 1: byte 1 is not UTF-8; save the file as UTF-8", {"d.jsonl": ROWS.encode("utf-16")}),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 1: message 1 of "messages": "role" is missing; it must be text',
        {"d.jsonl": '{"messages": [{"from": "human", "value": "hi"}]}\n'},
    ),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 1: "messages" ends with the assistant\'s turn; it must end with a message that the model answers',
        {"d.jsonl": '{"messages": [{"role": "assistant", "content": "hi"}]}\n'},
    ),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 1: the column "completions" has a name that reward functions get from training; rename it',
        {"d.jsonl": '{"prompt": "a", "completions": "b"}\n'},
    ),
    (
        "{train} --task d.jsonl --task.bad_rows 0.1",
        "d.jsonl: 1 of 3 rows are bad, more than --task.bad_rows 0.1 allows; the first is line 3: holds a list|write",
        {"d.jsonl": ROWS + "[1]\n"},
    ),
    ("{train} --task d.csv", "d.csv, row 1: its columns stand apart by semicolons|save it with commas", {"d.csv": "prompt;answer\na;1\nb;2\n"}),
    ("{train} --task d.csv", "d.csv, row 1: its columns stand apart by tabs|save it with commas", {"d.csv": "prompt\tanswer\na\t1\n"}),
    ("{train} --task d.csv", 'd.csv has two columns named "prompt"; rename one', {"d.csv": "prompt,prompt\na,b\n"}),
    ("{train} --task d.csv", "d.csv, row 2: has 1 values for 2 columns; mend the row", {"d.csv": 'prompt,answer\n"a,1\nb,2\n'}),
    ("{train} --task d.arrow", 'd.arrow ends in ".arrow"|convert it to one of .jsonl', {"d.arrow": "x"}),
    ("{train} --task d.jsonl --task.verify math", 'unknown verifier "math" (did you mean mathematics?)|--task.verify', {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.held_out gone.jsonl", "there is no file gone.jsonl; check the path", {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl", "d.jsonl, line 3: holds a list, not an object; write", {"d.jsonl": ROWS + "[1]\n"}),
    ("{train} --task d.jsonl", 'd.jsonl, line 1: no column is named prompt|"text"', {"d.jsonl": '{"text": "say 1"}\n'}),
    ("{train} --task d.jsonl", "d.jsonl holds no rows; give a file", {"d.jsonl": "\n\n"}),
    ("{train} --task d.jsonl", "d.jsonl holds one prompt only; give at least two", {"d.jsonl": ROWS.splitlines()[0] * 1}),
    ("{train} --task d.json", "d.json is one JSON array; write one object a line", {"d.json": '[{"prompt": "say 1"}]'}),
    ("{train} --task d.txt", 'd.txt ends in ".txt"|convert it', {"d.txt": ROWS}),
    ("{train} --task d.csv", 'd.csv, row 2: no column is named prompt|"say 1"', {"d.csv": "say 1,1\nsay 2,2\n"}),
    ("{train} --task d.csv", "d.csv, row 3: has 3 values for 2 columns; mend the row", {"d.csv": "prompt,answer\nsay 1,1\nsay 2,2,3\n"}),
    ("{train} --task d.csv", "d.csv|invalid UTF8|save it as UTF-8", {"d.csv": "prompt,answer\ncaf\u00e9,1\n".encode("latin-1")}),
    ("{train} --task d.parquet", "d.parquet is not a readable Parquet file|write it anew", {"d.parquet": broken.half_parquet}),
    ("{train} --task .", ". is a folder; give one file", {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.prompt_column q", 'unknown column "q"; known: answer, prompt', {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.held_out d.jsonl", "every prompt of d.jsonl is also in d.jsonl; give held-out", {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl", "has 303 tokens, but the model's context holds 128|shorten", {"d.jsonl": ROWS.replace("say", "say" * 100)}),
    ("{train} --task gsm8k", "gsm8k needs its file: give --task.path"),
    ("{train} --task gsm8k --task.path d.jsonl", 'd.jsonl, line 1: a row of GSM8K has "question"', {"d.jsonl": ROWS}),
    ("{train} --task arithmetic:0,countdown:1", "the weight of arithmetic is 0; it must be above 0"),
    ("{train} --task arithmetic:nan,countdown:1", "the weight of arithmetic is nan"),
    ("{train} --task arithmetic:1,countdwn:2", 'unknown task "countdwn" (did you mean countdown'),
    ("{train} --task arithmetic,,countdown", "has an empty place between its commas; write task:weight"),
    ("{train} --task arithmetic,frozen_lake", "mix tasks of one kind"),
]

CODE: list[Row] = [
    ("{train} --task t.py:task", "t.py, line 1: invalid syntax; mend the file", {"t.py": "def task(:\n"}),
    ("{train} --task t.py:task", "t.py cannot be imported: ModuleNotFoundError|nothing_here|line 2|mend it", {"t.py": "\nimport nothing_here\n"}),
    ("{train} --task t.py:task", 'unknown task "task" (did you mean tsk?)|t.py', {"t.py": "tsk = 3\n"}),
    ("{train} --task t.py:task", "t.py:task is of type int; it must be a gradus Task", {"t.py": "task = 3\n"}),
    ("{train} --task t.py:task", "t.py:task returned int; it must return a gradus Task", {"t.py": "def task():\n    return 3\n"}),
    ("{train} --task t.py:task", "raised KeyError: 'no' (t.py, line 2); mend it", {"t.py": "def task():\n    raise KeyError('no')\n"}),
    ("{train} --task t.py:task", "raised SystemExit: 3 (t.py, line 2)", {"t.py": "def task():\n    raise SystemExit(3)\n"}),
    ("{train} --task t.py:task", "task mine has no problems for training", {"t.py": broken.task("return []", size=0)}),
    ("{train} --task t.py:task", "task mine|its source gave []; it must give a Problem", {"t.py": broken.task("return []")}),
    ("{train} --task t.py:task", "t.py, line 9: KeyError: 'x'; mend it", {"t.py": broken.task("raise KeyError('x')")}),
    ("{train} --task t.py:task", "problem p has neither text nor messages", {"t.py": broken.task("return [Problem('p', 'mine')]")}),
    ("{train} --reward r.py", '"r.py" is not of the form FILE.py:NAME', {"r.py": ""}),
    ("{train} --reward gone.py:score", "there is no file gone.py; check the path"),
    ("{train} --reward r.py:scor", 'unknown reward function "scor" (did you mean score?)|r.py', {"r.py": BATCHED + "pass\n"}),
    ("{train} --reward r.py:score", "r.py, line 3: invalid syntax; mend the file", {"r.py": "\n\nscore = = 3\n"}),
    ("{train} --reward r.py:score", "score is of type int; it must be a function", {"r.py": "score = 3\n"}),
    ("{train} --reward r.py:score", 'needs "colour", which the data has not (columns: answer)', {"r.py": "def score(colour): ...\n"}),
    ("{train} --reward r.py:score --reward.timeout 0", "timeout is 0.0; give the seconds", {"r.py": BATCHED + "return []\n"}),
    ("{train} --reward r.py:score", "none of 2 held-out answers|raised KeyError: 'no' (r.py, line 2)|Mend", {"r.py": BATCHED + "raise KeyError('no')\n"}),
    ("{train} --reward r.py:score --study none", "4 of 4|returned 1 rewards for 4 completions", {"r.py": BATCHED + "return [1.0]\n"}),
    ("{train} --reward r.py:score --study none", "4 of 4|more than the 50% allowed|returned nan", {"r.py": BATCHED + "return [float('nan')] * 4\n"}),
    ("{train} --reward r.py:score --study none", "returned the text 'good' for a number", {"r.py": BATCHED + "return ['good'] * 4\n"}),
    (
        "{train} --reward r.py:score --study none --reward.timeout 0.5",
        "did not answer within 0.5 seconds, the limit that --reward.timeout sets",
        {"r.py": BATCHED + "while True: pass\n"},
    ),
    ("{train} --reward r.py:score", "ended with exit code 3", {"r.py": BATCHED + "import os; os._exit(3)\n"}),
    (
        "{train} --objective.policy.trust p.py:Mine",
        "p.py, line 11: ZeroDivisionError: integer division or modulo by zero; mend it",
        {"p.py": broken.PART},
    ),
    ("eval {home}/run --reward r.py:scor", "did you mean score?", {"r.py": BATCHED + "pass\n"}),
]

RUNS: list[Row] = [
    ("{train}", "run already holds a run: go on with it by gradus resume run, or name another", {"run": broken.run()}),
    ("{train}", "run holds files that are no run: name another folder", {"run/notes.txt": "mine"}),
    ("{train}", "cannot make the run folder run: File exists; name another", {"run": "a file"}),
    ("{train} --run a/run", "cannot make the run folder a/run: Not a directory; name another", {"a": "a file"}),
    ("resume run --until never", '--until is "never"; write how long', {"run": broken.run()}),
    ("check --task d.jsonl --quarantine q.txt", '--quarantine is "q.txt"; name a file that ends in .jsonl', {"d.jsonl": ROWS + "[1]\n"}),
    ("resume gone", "gone holds no run: it has no recipe.json; give the folder"),
    ("resume a", "a holds no run", {"a/notes.txt": "mine"}),
    ("resume run", "run/recipe.json: cannot be read as JSON|put the old file back", {"run": broken.run(recipe__json=broken.cut)}),
    ("resume run", "run/recipe.json is not what this version|'task_options'", {"run": broken.run(recipe__json="{}")}),
    ("resume run", "run/recipe.json: holds a list", {"run": broken.run(recipe__json="[]")}),
    (
        "resume run",
        'uses "gradus.credit.groups:Gone"|version',
        {"run": broken.run(recipe__json=broken.recipe(credit={"part": "gradus.credit.groups:Gone"}))},
    ),
    (
        "resume run",
        '"os:system", which belongs to no package',
        {"run": broken.run(recipe__json=broken.recipe(credit={"part": "os:system"}))},
    ),
    ("resume run", "Recipe that this version|'new'", {"run": broken.run(recipe__json=broken.recipe(new=3))}),
    (
        "resume run",
        "uses Mine from|part.py, which has changed since; put the old text back",
        {"part.py": "", "run": broken.run(recipe__json=broken.recipe(credit={"part": {"file": "part.py", "name": "Mine", "sha256": "0"}}))},
    ),
    ("resume run --steps 3", "there is no file /gone.jsonl", {"run": broken.run(recipe__json=broken.fields(task="/gone.jsonl"))}),
    ("resume run --steps 3", 'model folder "/gone" does not exist', {"run": broken.run(recipe__json=broken.fields(model="/gone"))}),
    ("resume run --steps 3", "run/metrics.jsonl, line 1 is no record of a step", {"run": broken.run(metrics__jsonl="{}\n")}),
    ("resume run --steps 3", "run/provenance.json cannot be read as JSON", {"run": broken.run(provenance__json="{")}),
    ("eval run", "is not whole (model/model.safetensors has|take another", {"run": broken.run(final=broken.weightless)}),
    ("eval run", "has no whole checkpoint|gradus resume run", {"run": broken.run(checkpoints=None, final=None, best=None)}),
    ("export run m", "m exists already; name another folder", {"run": broken.run(), "m/notes.txt": "mine"}),
    ("export run a/m", "cannot write the model to a/m: Not a directory; name another", {"run": broken.run(), "a": "a file"}),
    ("export gone m", "gone holds no run; give the folder"),
    ("export run m", "has no checkpoint yet|gradus resume run", {"run": broken.run(checkpoints=None, final=None, best=None)}),
]


SECTIONS: dict[str, list[Row]] = {
    "Names and options": NAMES,
    "Numbers, durations and sizes": NUMBERS,
    "Parts of a recipe": PARTS,
    "Models and devices": MODELS,
    "Data": DATA,
    "Your own code": CODE,
    "Runs": RUNS,
}
REMEDY = re.compile(
    r"(?:[;:.,)] |\()(?:and |then |or |the two do not belong together: )?(?:give|write|name|take|choose|set|add|mend|save|check|use|list|see|put|drop|"
    r"raise|copy|shorten|leave|delete|rename|convert|fetch|derive|mix|install|go on|say|do it|make|it must|it is|its source must|did you mean|known:|"
    r"every|The fields are listed by|List them|See|Give|Mend|A task is also)\b|; known: |\(did you mean "
)
"""What to do, said in the sentence: an imperative, what must be, or the names that are known."""


def named(row: Row, said: str) -> bool:
    """Whether a sentence says where: an option, a file, a line, a place of the recipe, or a word that was typed."""
    if re.search(r"--\w|\w\.(jsonl?|py|csv|parquet|arrow|txt|safetensors|bin)\b|\b(line|row) \d|(task|problem|recipe|player|folder) \S|In \"", said):
        return True
    typed = re.sub(r"\{train\}|\{home\}/|--|,", " ", row[0]).split()
    return any(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", said) for word in typed[1:] for part in (word, word.rpartition(".")[2]) if part)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


def make_home(home: Path) -> Path:
    """A sound model, sound problems and a finished run of two steps."""
    torch.set_num_threads(1)
    save_small_model(home / "model")
    for name, columns in (("problems", ("prompt", "answer")), ("unanswered", ("prompt",))):
        rows = ({"prompt": f"say {i}", "answer": str(i)} for i in range(20))
        (home / f"{name}.jsonl").write_text("".join(json.dumps({c: row[c] for c in columns}) + "\n" for row in rows))
    assert main(shlex.split(f"{TRAIN} --steps 2 --save_every 1".format(home=home).replace("--run run", f"--run {home}/run"))) == 0
    return home


@pytest.fixture(autouse=True)
def _no_workers_are_left() -> Iterator[None]:
    yield
    stop_workers()


def everything(folder: Path) -> dict[str, bytes | str | None]:
    """Every path in a folder with its bytes, or where it points."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name != ".lock"
    }


def lay(row: Row, folder: Path, home: Path) -> None:
    """Puts the files of a row into a folder."""
    for name, content in (row[2] if len(row) == 3 else {}).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if callable(content):
            content(path, home)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def test_the_page_of_mistakes_is_of_this_table() -> None:
    cells = {mistakes.cell(row) for rows in SECTIONS.values() for row in rows}
    assert len(mistakes.page()) >= 60
    assert set(mistakes.page()) <= cells


@pytest.mark.parametrize("row", [*NAMES, *NUMBERS, *PARTS, *MODELS, *DATA, *CODE, *RUNS], ids=lambda row: f"{row[0]} -> {row[1][:40]}")
def test_bad_input(row: Row, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lay(row, tmp_path, home)
    monkeypatch.chdir(tmp_path)
    before, sound = everything(tmp_path), everything(home)
    capfd.readouterr()
    code = main(shlex.split(row[0].format(train=TRAIN.format(home=home), home=home)))
    said = capfd.readouterr().err
    assert code == 2, said
    assert re.fullmatch(r"gradus: [^\n]{15,700}\n", said), said
    assert "Traceback" not in said
    assert [part for part in row[1].split("|") if part not in said] == [], said
    assert REMEDY.search(said), f"says not what to do: {said}"
    assert named(row, said), f"says not where: {said}"
    cell, told = mistakes.cell(row), mistakes.plain(said, tmp_path, home)
    assert mistakes.page().get(cell, told) == told, f"{mistakes.PAGE} is not up to date; write it with: python -m tests.mistakes"
    after = everything(tmp_path)
    if "quarantine.jsonl" in said:  # what could not be judged is kept for whoever wants to see why
        assert json.loads(Path("run/quarantine.jsonl").read_text().splitlines()[0])
        after = {name: content for name, content in after.items() if name.split("/")[0] != "run"}
    assert after == before
    assert everything(home) == sound


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train grop", 'unknown recipe "grop"'),
        ("{train} --task d.jsonl", "d.jsonl, line 3: not valid JSON"),
        ("{train} --reward r.py:score --study none", "4 of 4 trajectories of this step have no reward"),
    ],
)
def test_bad_input_of_a_process(words: str, said: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(ROWS + '{"prompt": "say 3", "answer": "3",}\n')
    (tmp_path / "r.py").write_text(BATCHED + "return ['good'] * 4\n")
    typed = shlex.split(words.format(train=TRAIN.format(home=home)))
    command = [sys.executable, "-m", "gradus", *typed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 2
    assert re.fullmatch(r"gradus: [^\n]+\n", done.stderr), done.stderr
    assert said in done.stderr
    assert {p.name for p in tmp_path.iterdir() if p.name != "__pycache__"} == {"d.jsonl", "r.py", *(["run"] if "4 of 4" in said else [])}


def test_what_the_system_refuses(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/the/place")

    monkeypatch.setattr("gradus.catalogue.papers", refused)
    assert main(["papers"]) == 2
    said = capfd.readouterr().err
    assert said == "gradus: the system refused at /the/place: Permission denied; check the permissions, or name another place\n"


def test_two_processes_in_one_run(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = everything(home)
    with RunFolder.open(home / "run").claimed():
        assert main(["resume", str(home / "run"), "--steps", "3"]) == 2
    assert f"another process is training in {home / 'run'}: wait for it, or end it first" in capfd.readouterr().err
    assert everything(home) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert main(shlex.split(TRAIN.format(home=home).replace("--run run", f"--run {closed}/run"))) == 2
    assert f"cannot make the run folder {closed}/run: Permission denied; name another folder" in capfd.readouterr().err
