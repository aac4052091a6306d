"""The command line: what people type, and what they are told."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradus.cli.exit import came_of_it, carry_out
from gradus.cli.main import build_parser, free_folder, main, split_fields, whole_numbers
from gradus.lab.folder import RunFolder
from gradus.lab.live import Live
from gradus.types import UserError
from tests.small_model import save_small_model


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["train", "--help"],
        ["papers"],
        ["tasks"],
        ["papers", "--search", "clip"],
        ["chat", "--help"],
        ["completion", "bash"],
        [],
    ],
)
def test_help_and_listings_import_nothing_heavy(words: list[str]) -> None:
    heavy = {"torch", "numpy", "transformers", "pyarrow", "rich", "sympy", "networkx"}
    code = (
        f"import sys; from gradus.cli.main import main\ntry: main({words!r})\nexcept SystemExit as e: assert not e.code\n"
        f"found = {heavy!r} & sys.modules.keys(); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "gradus" in done.stdout or "description" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], 'unknown command "trian" (did you mean train?)'),
        (["train"], "the following arguments are required: RECIPE; see: gradus train --help"),
        (["train", "grpo", "--taks", "arithmetic"], 'unknown option "--taks" (did you mean --task?)'),
        (["train", "grop"], 'unknown recipe "grop" (did you mean grpo'),
        (["train", "grpo", "--steps", "many"], '--steps is "many"; it must be a whole number'),
        (["train", "grpo", "--steps", "-1"], "--steps is -1"),
        (["train", "grpo", "--objective.polcy.trust", "3"], 'unknown field "polcy" (did you mean policy?)'),
        (["train", "grpo", "--objective.policy.trust.high", "wide"], '--objective.policy.trust.high is "wide"; it must be a number'),
        (["train", "grpo", "--objective.policy.trust", "Clipp"], 'unknown part "Clipp" (did you mean Clip'),
        (["train", "grpo", "--learning_rate"], "--learning_rate has no value; write --learning_rate VALUE"),
        (["train", "grpo", "--learning_rate", "--steps", "3"], "--learning_rate has no value"),
        (["train", "grpo", "--profile", "tinny"], 'unknown profile "tinny" (did you mean tiny?)'),
        (["train", "grpo", "--task", "arithmetics"], 'unknown task "arithmetics" (did you mean arithmetic?)'),
        (["train", "grpo", "--task", "gone.jsonl"], "gone.jsonl"),
        (["train", "grpo", "--model", "gone"], "gone"),
        (["resume", "gone"], "gone contains no run, because the file recipe.json is missing"),
        (["eval", "gone", "--task", "arithmetic"], "gone"),
        (["eval", "tiny", "--task", "arithmetic", "--pass-at", "1,x"], '--pass-at is "1,x"; write whole numbers'),
        (["eval", "gone"], 'there is no folder "gone"; give the folder of a model, or of a run'),
        (["eval", "tiny"], "task with --task"),
        (["papers", "--family", "base"], 'unknown family "base" (did you mean bases?)'),
        (["show", "gpro"], 'unknown recipe "gpro" (did you mean '),
        (["diff", "grpo", "nothing.py:mine"], "there is no file nothing.py"),
        (["export", "gone", "there"], "gone contains no run; give the folder"),
        (["cite", "dappo"], 'unknown recipe "dappo" (did you mean dapo'),
        (["completion", "csh"], "argument SHELL: invalid choice: 'csh'"),
        (["chat", "gone"], "gone"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = said(capsys, *words)
    assert code == 2
    assert err.startswith("gradus: ")
    assert sentence in err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_whole_traceback_is_there_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["show", "grop"]) == 2
    monkeypatch.setenv("GRADUS_TRACEBACK", "1")
    with pytest.raises(UserError, match="grop"):
        main(["show", "grop"])


def test_words_are_told_from_fields() -> None:
    parser = build_parser()[1]["train"]
    words = ["train", "--a.b", "1", "grpo", "--steps", "3", "--seed=4", "--c=-5", "--d", "-0.5", "--task", "x", "--task.path", "y"]
    assert split_fields(words, parser) == (
        ["train", "grpo", "--steps", "3", "--seed=4", "--task", "x"],
        [("a.b", "1"), ("c", "-5"), ("d", "-0.5"), ("task.path", "y")],
    )


def test_small_things() -> None:
    assert whole_numbers("1, 4,16") == [1, 4, 16]
    with pytest.raises(UserError, match="--pass-at"):
        whole_numbers("0")
    rows = [{"reward": 0.1}, {"held_out/accuracy": 0.25, "reward": None}, {"held_out/accuracy": 0.75}]
    assert came_of_it(rows) == "done: held-out accuracy 0.250 -> 0.750"
    assert came_of_it([{"reward": 0.1}, {"reward": 0.5}]) == "done: reward 0.100 -> 0.500"
    assert came_of_it([]) == "done: no step was taken"


def test_a_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_folder("grpo", "data/some problems.jsonl") == "runs/grpo-some-problems"
    (tmp_path / "runs" / "grpo-a-3-b-1").mkdir(parents=True)
    assert free_folder("my/method.py:grpo", "a:3,b:1") == "runs/grpo-a-3-b-1-2"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps of a small random model on a user's file with a user's reward, and all that it was made of."""
    home = tmp_path_factory.mktemp("cli")
    save_small_model(home / "model")
    rows = ({"prompt": f"say {i}", "answer": str(i)} for i in range(40))
    (home / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "reward.py").write_text(
        "def letters(completions, answer, **kwargs):\n    return [float(len(set(str(c)))) for c in completions]\n"
    )
    assert main(words_of(home)) == 0
    return home


def words_of(home: Path, run: str = "run") -> list[str]:
    words = ["train", "grpo", "--task", str(home / "problems.jsonl"), "--model", str(home / "model"), "--run", str(home / run)]
    fields = {
        "reward": f"{home}/reward.py:letters",
        "steps": 2,
        "prompts": 2,
        "group": 2,
        "max_tokens": 5,
        "save_every": 1,
        "study.problems": 3,
    }
    return [*words, *(str(w) for name, value in fields.items() for w in (f"--{name}", value))]


def test_a_run_is_trained_from_the_command_line(trained: Path) -> None:
    folder = RunFolder.open(trained / "run")
    stored = folder.recipe()
    assert (stored["task"], stored["recipe"]["setting"]["prompts"]) == (str(trained / "problems.jsonl"), 2)
    assert [row["step"] for row in folder.metrics()] == [0, 1, 2]
    assert {"reward", "reward/letters", "accuracy", "length", "entropy", "kl", "clip_share", "tokens/rollout"} <= set(folder.metrics()[0])
    assert len(folder.rollouts()) == 4  # two prompts, two steps
    assert "problems</title>" in (folder.path / "report.html").read_text()
    assert str(trained / "model" / "model.safetensors") in folder.provenance()["model"]
    assert str(trained / "problems.jsonl") in folder.provenance()["data"]


def test_a_run_is_not_overwritten(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.stat().st_mtime_ns for p in (trained / "run").rglob("*")}
    code, _, err = said(capsys, *words_of(trained))
    assert code == 2
    assert f"already contains a run; resume the run with gradus resume {trained / 'run'}" in err
    assert {p: p.stat().st_mtime_ns for p in (trained / "run").rglob("*")} == before


def test_a_run_goes_on(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    longer = trained / "longer"
    shutil.copytree(trained / "run", longer, symlinks=True)
    code, out, _ = said(capsys, "resume", str(longer), "--steps", "3")
    assert code == 0
    assert f"run: {longer}" in out
    assert [row["step"] for row in RunFolder.open(longer).metrics()] == [0, 1, 2, 3]
    code, out, err = said(capsys, "resume", str(longer))  # it now is a run of three steps, also for whoever goes on with it without a word
    assert code == 0
    assert f"all 3 steps are done already; for more: gradus resume {longer} --steps 6" in "".join((out + err).split("\n"))
    assert RunFolder.open(longer).recipe()["recipe"]["setting"]["steps"] == 3
    code, _, err = said(capsys, "resume", str(longer), "--steps", "1")
    assert code == 2
    assert "--steps is 1, but" in err


def test_a_resumed_run_shows_the_values_of_the_whole_run(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[Live] = []
    stop = Live.stop
    monkeypatch.setattr(Live, "stop", lambda self: (views.append(self), stop(self)))
    again = trained / "again"
    shutil.copytree(trained / "run", again, symlinks=True)
    assert main(["resume", str(again), "--steps", "3"]) == 0
    rows = RunFolder.open(again).metrics()
    found = views[-1].curves
    assert found.values["reward"] == {row["step"]: row["reward"] for row in rows if "reward" in row}
    assert next(iter(found.values["held_out/accuracy"])) == 0
    assert found.problems == 3


def test_evaluation_in_words_and_json(trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    options = ["--pass-at", "1,2", "--problems", "4", "--max_tokens", "4"]
    code, out, _ = said(capsys, "eval", str(trained / "run"), *options)
    assert code == 0
    assert out.splitlines()[0] == "problems: 4 held-out problems, 2 samples each at temperature 1"
    assert out.splitlines()[1].startswith("prompts: raw text, without the model's chat template (--task.prompt chat ")
    assert re.search(r'; the first: "say \d+"$', out.splitlines()[1])
    assert out.splitlines()[2] == f"judged by: {trained}/reward.py:letters"
    # the run is judged as it was while training: every completion has at least one letter, so its reward is at least 1
    assert out.splitlines()[3].split() == ["pass@1", "1.000", "of", "4", "problems", "[0.398,", "1.000]", "Clopper-Pearson"]
    assert out.splitlines()[-2] == (
        "warning: 4 held-out problems: the accuracy is uncertain by about 0.43; "
        "use 30 or more (--problems N, or more held-out problems in the task)"
    )
    assert main(["eval", str(trained / "run"), "--problems", "1", "--max_tokens", "4"]) == 0
    assert "1.000 of 1 problem   [0.025, 1.000]  Clopper-Pearson" in capsys.readouterr().out
    code, out, _ = said(capsys, "eval", str(trained / "model"), "--task", str(trained / "problems.jsonl"), *options, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["problems"], found["samples"], set(found["pass_at"])) == (4, 2, {"1", "2"})
    assert found["length"]["mean"] <= 4
    assert found["judged_by"] == "the task's verifier"


def test_a_model_is_exported_as_it_is(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForCausalLM

    target = trained / "exported"
    told = said(capsys, "export", str(trained / "run"), str(target))[1].splitlines()
    card = target / "README.md"
    assert told == [f"wrote {target}", f"model card: {card}; fill in licence, intended use and limits before you share the model"]
    assert "# exported" in card.read_text()  # not the name of the folder while it is written
    assert (target / "learning_curve.svg").is_file()
    assert AutoModelForCausalLM.from_pretrained(target).config.hidden_size == 32
    card.write_text("mine")
    assert said(capsys, "export", str(trained / "run"), str(target), "--as", "card")[0] == 2
    assert card.read_text() == "mine"
    assert said(capsys, "export", str(trained / "run"), str(target), "--as", "card", "--replace")[0] == 0
    assert "# exported" in card.read_text()
    code, _, err = said(capsys, "export", str(trained / "run"), str(target))
    assert code == 2
    assert "exists already" in err


def test_a_best_model_that_is_not_there_is_not_replaced_by_another(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = trained / "bare"
    shutil.copytree(trained / "run", bare, symlinks=True)
    (bare / "best").unlink(missing_ok=True)
    code, _, err = said(capsys, "export", "--best", str(bare), str(trained / "copied"))
    assert code == 2
    assert "has no best model" in err
    assert not (trained / "copied").exists()


def test_a_run_is_evaluated_on_the_device_that_is_named(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "eval", str(trained / "run"), "--problems", "1", "--device", "nowhere")
    assert code == 2
    assert '--device is "nowhere"' in err


def test_a_paper_is_cited(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "cite", "grpo", "--bibtex")
    assert code == 0
    assert out.startswith("@misc{shao2024grpo,\n  title = {{DeepSeekMath: ")
    assert said(capsys, "cite")[1].startswith("Gradus: ")


def test_a_run_is_talked_with(trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("say 3\n/quit\n"))
    code, out, _ = said(capsys, "chat", str(trained / "run"), "--max-tokens", "4")
    assert code == 0
    assert out.count("\n") >= 1


def test_what_is_told_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def raising(words: list[str]) -> int:
        raise UserError("the reward raised ValueError: \x1b]0;owned\x07\x1b[2J")

    monkeypatch.setattr("gradus.cli.main.run", raising)
    assert main(["tasks"]) == 2
    assert capsys.readouterr().err == "gradus: the reward raised ValueError: ?]0;owned??[2J\n"


def test_ctrl_c_says_what_is_kept(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> SimpleNamespace:
        raise KeyboardInterrupt

    assert carry_out(stopped, str(trained / "run")) == 130
    assert f"stopped; saved up to step 2; go on with: gradus resume {trained / 'run'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "grpo", "--steps", "3", "--steps=4"], "--steps is given 2 times; give it once"),
        (["train", "grpo", "--learning_rate", "1", "--learning_rate", "2"], "--learning_rate is given twice, as 1 and as 2; give it once"),
        (["train", "grpo", "--prompts", "1", "--setting.prompts", "2"], "--prompts 1 and --setting.prompts 2 set the same field; give only one of them"),
        (["train", "grpo", "--steps", "1", "--setting.steps", "2"], "--steps and --setting.steps set the same field; give only one of them"),
        (["eval", "tiny", "--task.level", "1", "--task.level", "2"], "--task.level is given twice, as 1 and as 2; give it once"),
        (["papers", "--search", "a", "--search", "b"], "--search is given 2 times; give it once"),
    ],
)
def test_an_option_given_twice_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, *words)
    assert (code, err.strip()) == (2, f"gradus: {told}")


@pytest.mark.parametrize(
    "words", [["train", "grpo", "--steps", "0", "--run"], ["train", "grpo", "--task"], ["train", "grpo", "--model"], ["resume"], ["eval"]]
)
def test_a_name_that_is_too_long_is_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, *words, "a" * 300)
    assert code == 2
    assert len(err) < 250 or "unknown task" in err
    assert "Traceback" not in err


def test_the_folder_of_a_long_mixture_has_a_name_that_fits() -> None:
    assert len(free_folder("grpo", ",".join(f"task_{i}:1" for i in range(50)))) <= len("runs/") + 100


def test_ctrl_c_before_anything_began(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def stopped(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gradus.api.start", stopped)
    code, _, err = said(capsys, "train", "grpo")
    assert code == 130
    assert "stopped; there is no run yet, and nothing was written to runs/grpo-arithmetic; start it again with the same command" in err
    assert not list(tmp_path.iterdir())


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **more: object) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr("gradus.cli.lists.papers", broken)
    with pytest.raises(ValueError, match="a fault of ours"):
        main(["papers"])
