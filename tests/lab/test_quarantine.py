import json

from gradus.lab.folder import RunFolder
from gradus.lab.quarantine import LONGEST, entry
from gradus.testing.methods import toy_trajectory
from gradus.types import NOT_APPLICABLE, Failed, FailureKind, Frozen, Problem

LATE = Failed("did not answer", FailureKind.TIMEOUT)


def failed(reward, completion="four", **components):
    problem = Problem("p/1", "sums", ({"role": "user", "content": "2+2?"},), answer=(4,), meta=Frozen(gold="4"))
    return toy_trajectory([1], name="3/p/1/0").but(problem=problem, reward=reward, components=Frozen(components), completion=completion)


def test_a_line_holds_what_is_needed_to_judge_again():
    found = entry(3, "train", failed(Failed("mine: did not answer", FailureKind.TIMEOUT), mine=LATE, brief=0.5))
    assert found == {
        "step": 3,
        "purpose": "train",
        "kind": "timed out",
        "reason": "mine: did not answer",
        "components": {"mine": "timed out: did not answer"},
        "trajectory": "3/p/1/0",
        "player": "policy",
        "problem": "p/1",
        "task": "sums",
        "messages": '[{"role":"user","content":"2+2?"}]',
        "text": None,
        "answer": "[4]",
        "meta": '{"gold":"4"}',
        "completion": "four",
        "cut": {},
    }
    assert entry(0, "evaluate", failed(NOT_APPLICABLE))["kind"] == "not applicable"


def test_long_texts_are_cut_and_how_long_they_were_is_said():
    found = entry(0, "train", failed(LATE, "x" * (LONGEST + 5)))
    assert (found["completion"], found["cut"]) == ("x" * LONGEST, {"completion": LONGEST + 5})


def test_lines_of_steps_that_are_done_again_go_and_a_folder_with_a_quarantine_is_not_thrown_away(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {}, {})
    for step in (0, 1, 2):
        folder.append_failed(step, "train", [failed(LATE), failed(LATE, "half \ud800 a pair")])
    with open(folder.path / "quarantine.jsonl", "ab") as file:
        file.write(b'{"step": 2, "torn')
    assert [r["step"] for r in folder.quarantine()] == [0, 0, 1, 1, 2, 2]
    folder.cut_back(1)
    assert [r["completion"] for r in folder.quarantine()] == ["four", "half \ud800 a pair"]
    assert json.loads((folder.path / "quarantine.jsonl").read_text().splitlines()[0])["step"] == 0
    folder.discard()
    assert folder.quarantine()
