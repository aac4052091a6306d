"""The methods in examples/ train, show and differ like those that are built in. The scripts for clusters are sound as far as no cluster is needed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from gradus.recipe.registry import recipe
from gradus.recipe.serialise import from_json
from gradus.types import UserError
from gradus.types.systems import Cluster
from tests.small_model import save_small_model

EXAMPLES = Path(__file__).parent.parent / "examples"
MINE = f"{EXAMPLES / 'my_method.py'}:my_method"
SMALL = {"steps": 2, "prompts": 2, "group": 4, "max_tokens": 4, "study.problems": 2}


def test_a_method_of_ones_own_is_shown_and_compared(capsys):
    assert main(["show", MINE]) == 0
    assert "family      bases; base: grpo" in capsys.readouterr().out
    assert main(["diff", "grpo", MINE]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == ["grpo my_method", "credit GroupRelative AboveMedian", "size - 1.0"]


def test_a_method_of_ones_own_is_thirty_lines():
    assert len((EXAMPLES / "my_method.py").read_text().splitlines()) <= 30


def test_its_parts_are_set_and_stored_like_any_others(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_small_model(tmp_path / "model")
    reward = tmp_path / "reward.py"
    reward.write_text("def length(completion_ids, **kwargs):\n    return [float(sum(ids)) for ids in completion_ids]\n")
    words = ["train", MINE, "--model", "model", "--reward", f"{reward}:length", "--run", "run", "--credit.size", "2"]
    assert main([*words, *(str(w) for name, value in SMALL.items() for w in (f"--{name}", value))]) == 0
    assert "run: run" in capsys.readouterr().out
    stored = from_json(json.loads((tmp_path / "run" / "recipe.json").read_text())["recipe"])
    assert (stored.key, stored.base, stored.credit.size) == ("my_method", "grpo", 2.0)
    seen = {float(a) for _, g in RunFolder.open("run").rollouts() for t in g.trajectories for a in t.advantages}
    assert seen <= {-2.0, 0.0, 2.0}
    assert len(seen) > 1
    assert main(["resume", "run", "--steps", "3"]) == 0


@pytest.mark.parametrize("name", sorted(p.stem for p in EXAMPLES.glob("*.py")))
def test_every_example_is_a_recipe_of_that_name(name):
    assert recipe(f"{EXAMPLES / name}.py:{name}").key == name


def test_the_script_for_slurm_is_a_script():
    script = EXAMPLES / "cluster/slurm.sbatch"
    assert subprocess.run(["bash", "-n", script], capture_output=True, text=True).stderr == ""
    fields = set(re.findall(r"--system\.(\w+)", script.read_text()))
    assert {"address", "workers", "worker_gpus"} <= fields <= set(Cluster.__dataclass_fields__)


def test_the_job_for_kubernetes_runs_a_command_that_exists(monkeypatch):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((EXAMPLES / "cluster/rayjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    pinned = re.search(r"^ray==(\S+)", (EXAMPLES.parent / "constraints.txt").read_text(), re.M)
    assert pinned
    assert spec["rayVersion"] == pinned[1]
    (group,) = spec["workerGroupSpecs"]
    for one in (spec["headGroupSpec"], group):
        (container,) = one["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == one["rayStartParams"]["num-gpus"]
    words = shlex.split(job["spec"]["entrypoint"])[2].split("exec ")[2].partition(";")[0].split()
    assert words[:2] == ["gradus", "train"]
    words = [word for word in words[1:] if not word.startswith("/shared/models")]  # as without --model
    words.remove("--model")
    words = words[: words.index("--device")] + words[words.index("--device") + 2 :]  # this machine may have no GPU
    planned = []
    monkeypatch.setattr("gradus.api.launch", lambda plan, *_, **__: planned.append(plan) or (_ for _ in ()).throw(UserError("planned")))
    assert main(words) == 2
    system = planned[0].recipe.system
    assert isinstance(system, Cluster)
    assert (system.address, system.workers, system.worker_gpus) == ("auto", 8, 1.0)
    assert system.workers == int(group["rayStartParams"]["num-gpus"]) * group["replicas"]
