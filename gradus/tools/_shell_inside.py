"""Runs in the sandbox: restores the folder of an episode, runs one command in it, and prints its output and the folder as JSON."""

import base64
import json
import os
import subprocess
import sys

with open("state.json", encoding="utf-8") as file:
    state = json.load(file)
os.mkdir("folder")
os.chdir("folder")
for path, (content, runs) in state["files"].items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(content))
    if runs:
        os.chmod(path, 0o755)
with open("../said", "w+b") as said:
    late = False
    try:
        exit = subprocess.run(["sh", "-c", state["command"]], stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, timeout=state["seconds"]).returncode
    except subprocess.TimeoutExpired:
        exit, late = 124, True
    said.seek(0)
    output = said.read(state["output"] + 1)
files = {}
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                files[path] = (base64.b64encode(file.read()).decode(), os.access(path, os.X_OK))
json.dump({"output": output.decode("utf-8", "replace"), "exit": exit, "late": late, "files": files}, sys.stdout)
