"""Files of problems, and tasks made of them, that cannot be read as they are."""

from __future__ import annotations

import json

from tests import broken
from tests.bad_input.row import Row
from tests.broken import ROWS

CHATS = "".join(json.dumps({"prompt": [{"role": "user", "content": f"say {i}"}]}) + "\n" for i in range(2))

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
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 3: "images" names the picture cat.png, but there is no file|name a file, or give a data URI',
        {"d.jsonl": ROWS + '{"prompt": "say 3", "images": ["cat.png"]}\n'},
    ),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 3: "images" contains the picture d.jsonl, which cannot be read: it is not a picture, or it is damaged; name a file',
        {"d.jsonl": ROWS + '{"prompt": "say 3", "images": ["d.jsonl"]}\n'},
    ),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 3: "images" names the picture https://a.org/cat.png on the network; save the picture, and name its file',
        {"d.jsonl": ROWS + '{"prompt": "say 3", "images": ["https://a.org/cat.png"]}\n'},
    ),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 3: "prompt" has 2 places for pictures (<image>), but the row has 1 pictures; write a place for each',
        {"d.jsonl": ROWS + '{"prompt": "<image> or <image>?", "images": ["x.ppm"]}\n', "x.ppm": "P3 1 1 9 9 0 0\n"},
    ),
    (
        "{train} --task d.jsonl",
        'the data of task d shows pictures, but the model "|reads text; name a model that reads pictures with --model',
        {"d.jsonl": ROWS + '{"prompt": "say 3", "images": ["x.ppm"]}\n', "x.ppm": "P3 1 1 9 9 0 0\n"},
    ),
    (
        "{train} --task d.jsonl --task.prompt raw",
        "d.jsonl: the prompts have pictures, which need a chat template; leave out --task.prompt raw",
        {"d.jsonl": ROWS + '{"prompt": "say 3", "images": ["x.ppm"]}\n', "x.ppm": "P3 1 1 9 9 0 0\n"},
    ),
    ("{train} --task d.jsonl", 'd.jsonl, line 3: "prompt" is missing, but the first row has this column', {"d.jsonl": ROWS + '{"answer": "3"}\n'}),
    ("{train} --task d.jsonl", 'd.jsonl, line 3: "prompt" is a number; it must be text', {"d.jsonl": ROWS + '{"prompt": 3}\n'}),
    ("{train} --task d.jsonl", 'd.jsonl, line 3: "prompt" is empty; write a prompt', {"d.jsonl": ROWS + '{"prompt": " "}\n'}),
    (
        "{train} --task d.jsonl",
        "d.jsonl, line 3: not valid JSON: NaN is not allowed in JSON; write null in its place",
        {"d.jsonl": ROWS + '{"prompt": "a", "answer": NaN}\n'},
    ),
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
        'd.jsonl, line 1: the column name "completions" is reserved, because reward functions have an argument with this name; rename the column',
        {"d.jsonl": '{"prompt": "a", "completions": "b"}\n'},
    ),
    (
        "{train} --task d.jsonl --task.bad_rows 0.1",
        "d.jsonl: 1 of 3 rows are bad, but --task.bad_rows allows a share of 0.1; the first bad row is line 3: contains a list|write",
        {"d.jsonl": ROWS + "[1]\n"},
    ),
    (
        "{train} --task d.csv",
        "d.csv, row 1: the columns are separated by semicolons, but they must be separated by commas|save the file with commas",
        {"d.csv": "prompt;answer\na;1\nb;2\n"},
    ),
    ("{train} --task d.csv", "d.csv, row 1: the columns are separated by tabs, but they must be separated by commas", {"d.csv": "prompt\tanswer\na\t1\n"}),
    ("{train} --task d.csv", 'd.csv has two columns named "prompt"; rename one', {"d.csv": "prompt,prompt\na,b\n"}),
    ("{train} --task d.csv", "d.csv, row 2: has 1 values for 2 columns; fix the row", {"d.csv": 'prompt,answer\n"a,1\nb,2\n'}),
    ("{train} --task d.arrow", 'd.arrow ends in ".arrow"|convert it to one of .jsonl', {"d.arrow": "x"}),
    ("{train} --task d.jsonl --task.format medqua", 'unknown format "medqua" (did you mean medqa|--task.format', {"d.jsonl": ROWS}),
    (
        "{train} --task d.jsonl --task.format math --task.prompt_column q",
        "--task.format math chooses the columns; leave out --task.prompt_column",
        {"d.jsonl": ROWS},
    ),
    ("{train} --task d.jsonl --task.format math", 'd.jsonl, line 1: "solution" is missing; name another format', {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.verify math", 'unknown verifier "math" (did you mean mathematics?)|--task.verify', {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.held_out gone.jsonl", "there is no file gone.jsonl; check the path", {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl", "d.jsonl, line 3: contains a list, not an object; write", {"d.jsonl": ROWS + "[1]\n"}),
    ("{train} --task d.jsonl", 'd.jsonl, line 1: no column has the name prompt|"text"', {"d.jsonl": '{"text": "say 1"}\n'}),
    ("{train} --task d.jsonl", "d.jsonl has no rows; give a file", {"d.jsonl": "\n\n"}),
    ("{train} --task d.jsonl", "d.jsonl has only one prompt; give at least two prompts", {"d.jsonl": ROWS.splitlines()[0] * 1}),
    ("{train} --task d.json", "d.json, item 2: contains a number, not an object; every item must be an object", {"d.json": '[{"prompt": "say 1"}, 7]'}),
    ("{train} --task d.jsonl", "d.jsonl is one JSON array; rename it to d.json, or write one object per line", {"d.jsonl": '[{"prompt": "a"},\n{"prompt": "b"}]\n'}),
    (
        "{train} --task d.jsonl",
        'd.jsonl, line 3: not valid JSON: "prompt" occurs twice|remove one of the two',
        {"d.jsonl": ROWS + '{"prompt": "a", "prompt": "b"}\n'},
    ),
    (
        "{train} --task d.jsonl",
        "d.jsonl, line 3: not valid JSON: 1e999 is too large for a number",
        {"d.jsonl": ROWS + '{"prompt": "a", "answer": 1e999}\n'},
    ),
    (
        "{train} --task d.jsonl",
        'columns: "Prompt", "Answer"|with --task.prompt_column NAME',
        {"d.jsonl": '{"Prompt": "a", "Answer": "1"}\n'},
    ),
    ("{train} --task d.jsonl.gz", 'd.jsonl.gz ends in ".gz"|unpack it: gunzip --keep d.jsonl.gz', {"d.jsonl.gz": b"\x1f\x8b\x08"}),
    ("{train} --task d", "d has no ending|add its kind to its name, as in d.jsonl", {"d": ROWS}),
    ("{train} --task d.xlsx", 'd.xlsx ends in ".xlsx"|save the sheet as .csv', {"d.xlsx": b"PK"}),
    ("{train} --task d.csv", "d.csv is written in UTF-16; save it as UTF-8", {"d.csv": "prompt,answer\na,1\nb,2\n".encode("utf-16")}),
    ("{train} --task d.csv", "d.csv, row 5: has 3 values for 2 columns; fix the row", {"d.csv": "prompt,answer\na,1\n\n\nb,2,3\n"}),
    ("{train} --task d.txt", 'd.txt ends in ".txt"|convert it', {"d.txt": ROWS}),
    ("{train} --task d.csv", 'd.csv, row 2: no column has the name prompt|"say 1"', {"d.csv": "say 1,1\nsay 2,2\n"}),
    ("{train} --task d.csv", "d.csv, row 3: has 3 values for 2 columns; fix the row", {"d.csv": "prompt,answer\nsay 1,1\nsay 2,2,3\n"}),
    ("{train} --task d.csv", "d.csv|invalid UTF8|save it as UTF-8", {"d.csv": "prompt,answer\ncaf\u00e9,1\n".encode("latin-1")}),
    ("{train} --task d.parquet", "d.parquet is not a readable Parquet file|write the file again", {"d.parquet": broken.half_parquet}),
    ("{train} --task .", ". is a folder; give one file", {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.prompt_column q", 'unknown column "q"; known: answer, prompt', {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl --task.held_out d.jsonl", "every prompt of d.jsonl is also in d.jsonl; give held-out", {"d.jsonl": ROWS}),
    ("{train} --task d.jsonl", "has 302 tokens and leaves no room for the answer|context of 128|shorten", {"d.jsonl": ROWS.replace("say", "say" * 100)}),
    ("{train} --task.prompt rav", 'unknown value "rav" (did you mean raw?)'),
    ("{train} --task arithmetic --task.prompt raw", "--task.prompt is only for"),
    ("{train} --task d.jsonl --task.prompt raw", "d.jsonl: the prompts are lists of chat messages", {"d.jsonl": CHATS}),
    ("{train} --task.prompt raw --task.system Hi", "task problems has a system message, which does not work with raw prompts"),
    ("{train} --task squad", "unknown task \"squad\".|Save a data set of the Hugging Face Hub first: python -c"),
    ("{train} --task gsm8k", "gsm8k needs a file; give"),
    ("{train} --task gsm8k --task.path d.jsonl", 'd.jsonl, line 1: a row of GSM8K must have text in the fields "question"', {"d.jsonl": ROWS}),
    ("{train} --task arithmetic:0,countdown:1", "the weight of arithmetic is 0; it must be above 0"),
    ("{train} --task arithmetic:nan,countdown:1", "the weight of arithmetic is nan"),
    ("{train} --task arithmetic:1,countdwn:2", 'unknown task "countdwn" (did you mean countdown'),
    ("{train} --task arithmetic,,countdown", "has no task between two commas; write task:weight,task:weight"),
    ("{train} --task arithmetic,frozen_lake", "mix only tasks of the same kind"),
]
