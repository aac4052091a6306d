"""What a command says when its run has ended before there was one; what else it says is tried with the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradus.cli.exit import came_of_it, carry_out, next_words, without_reward
from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from tests.small_model import save_small_model


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_who_stops_before_there_is_a_run_is_told_that_there_is_none(
    raised: BaseException, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped() -> None:
        raise raised

    assert carry_out(stopped, str(tmp_path / "run")) == code
    said = f"stopped; there is no run yet, and nothing was written to {tmp_path / 'run'}; start it again with the same command"
    assert capsys.readouterr().err.strip() == said
    RunFolder.create(tmp_path / "run", {}, {})
    assert carry_out(stopped, str(tmp_path / "run")) == code
    assert f"nothing is saved yet, so it starts again from step 0; go on with: gradus resume {tmp_path / 'run'}" in capsys.readouterr().err


def test_answers_without_a_reward_are_counted_with_the_file_that_says_why() -> None:
    rows = [{"failed": 36, "held_out/failed": None}, {"failed": 50, "held_out/failed": 2.0}, {"failed": 0}]
    assert without_reward(rows, "runs/a") == ["86 sampled and 2 held-out answers have no reward; why: runs/a/quarantine.jsonl"]
    assert without_reward([{"failed": 1}], "runs/a") == ["1 sampled answer has no reward; why: runs/a/quarantine.jsonl"]
    assert without_reward([{"failed": 0}, {}], "runs/a") == []
    assert came_of_it([{"reward": None, "failed": 3}]) == "done: no answer was given a reward"
    assert came_of_it([]) == "done: no step was taken"


def test_a_second_interrupt_tells_the_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    RunFolder.create(tmp_path / "my run", {}, {})
    monkeypatch.setattr("gradus.cli.exit.report_of", stopped)  # the report is being written when Ctrl-C comes again
    assert carry_out(stopped, str(tmp_path / "my run")) == 130
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == f"stopped at once; nothing is saved yet, so it starts again from step 0; go on with: gradus resume '{tmp_path / 'my run'}'"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "grpo"], "there is no run yet; start it again with the same command"),
        (["resume", "runs/mine"], "the run is unchanged; resume it with the same command"),
        (["papers"], "stopped"),
    ],
)
def test_who_stops_while_it_is_loaded_is_told_what_there_is(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradus.cli.main.run", stopped)
    assert main(words) == 130
    assert capsys.readouterr().err.strip().endswith(told)


def test_a_run_that_learns_nothing_says_so_once_on_the_way_and_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "problems.jsonl").write_text("".join(f'{{"prompt": "{i}+1?"}}\n' for i in range(12)))
    (tmp_path / "zero.py").write_text("def zero(completions, **columns):\n    return [0.0] * len(completions)\n")
    words = ["train", "grpo", "--task", tmp_path / "problems.jsonl", "--model", save_small_model(tmp_path / "model"), "--steps", 6]
    words += ["--reward", f"{tmp_path / 'zero.py'}:zero", "--prompts", 2, "--group", 2, "--max_tokens", 4, "--run", tmp_path / "run"]
    assert main(list(map(str, words))) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line for line in lines if line.startswith("nothing learned: every answer of ")]
    assert [line.split(" steps")[0].rpartition(" ")[2] for line in found] == ["5", "6"]
    measured = "measured: held-out accuracy 0.000 -> 0.000 of 1 problem [0.000, 0.975]; greedy 0.000 -> 0.000; held-out reward 0.000 -> 0.000"
    assert measured in lines
    assert not any(line.startswith("done:") for line in lines)
    assert sum("by rule; change it with --learning_rate X" in line for line in lines) == 1
    assert came_of_it([{"reward": 0.5}, {"reward": 0.75}], "nothing moves") == "nothing moves\nmeasured: reward 0.500 -> 0.750"


def test_a_run_whose_answers_have_no_judge_names_export_and_the_reward_that_eval_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.jsonl").write_text("".join(f'{{"prompt": "{i}?", "chosen": "a", "rejected": "b"}}\n' for i in range(8)))
    run = str(tmp_path / "run")
    words = ["train", "dpo", "--task", str(tmp_path / "pairs.jsonl"), "--run", run, "--steps", "1", "--prompts", "2"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [f"next: gradus export {run} {run}-model", f"      gradus eval {run} --reward FILE.py:FUNCTION"]
    assert main(["eval", run]) == 2
    (tmp_path / "r.py").write_text("def zero(completions, **columns):\n    return [0.0] * len(completions)\n")
    assert main(["eval", run, "--reward", f"{tmp_path / 'r.py'}:zero", "--problems", "1", "--max_tokens", "2"]) == 0
    assert next_words("a", judged=True)[1:] == ["next: gradus eval a --pass-at 1,4,16", "      gradus export a a-model"]
    assert next_words("a", judged=True, answers=False)[1:] == ["next: gradus eval a", "      gradus export a a-model"]
