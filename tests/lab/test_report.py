"""The report of a run: complete, self-contained, and safe to open whatever a model wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gradus.lab.folder import RunFolder
from gradus.lab.report import flat, write_report
from gradus.types import Failed, Group


class Page(HTMLParser):
    """Tags, attributes and text of a page; every tag that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "circle", "path") or tag == "circle":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    recipe = {"recipe": {"part": "gradus.recipe.core:Recipe", "key": "grpo", "about": "a method", "credit": {"part": "a.b:Rule", "scale": 2}}}
    return RunFolder.create(
        tmp_path / "run", {**recipe, "task": "arithmetic"}, {"command": ["gradus", "train"], "data": {"a.jsonl": {"bytes": 3}}}
    )


def write(run: RunFolder) -> tuple[str, Page]:
    text = write_report(run).read_text(encoding="utf-8")
    return text, Page(text)


def test_an_empty_run_has_a_report(run: RunFolder) -> None:
    text, page = write(run)
    assert "grpo on arithmetic" in page.text
    assert "No step is done yet." in page.text
    assert "No rollout is stored." in page.text
    assert write_report(run.path).read_text(encoding="utf-8") == text


def test_curves_numbers_and_tables(run: RunFolder) -> None:
    for step in range(4):
        run.append_metrics(step, {"reward": step / 4, "reward/style": 0.5, "kl": None, "tokens/rollout": 100, "failed": 1, "entropy": 1.0})
        run.append_timings(step, {"rollout": 20.0, "update": 10.0})
    run.append_metrics(4, {"held_out/accuracy": 0.75})
    _, page = write(run)
    captions = re.findall(r"(Reward|Accuracy|Length|Entropy|KL to the reference|Clipped share)", page.text)
    assert captions == ["Reward", "Accuracy", "Entropy"]
    for fact in (
        "0.000 → 0.750",
        "0.750 → 0.750",
        "400",
        "2m00s",
        "credit.scale",
        "Rule",
        "gradus train",
        "data.a.jsonl.bytes",
        "style 0.5",
    ):
        assert fact in page.text, fact


def test_first_middle_and_last_step_best_and_worst(run: RunFolder, group: Callable) -> None:
    for step in range(5):
        near = group(f"near{step}", size=2)
        far = group(f"far{step}", size=4)
        lost = far.trajectories[3].but(reward=Failed("timed out"))
        run.append_rollouts(step, [near, Group("far", (*far.trajectories[:3], lost))])
    _, page = write(run)
    assert re.findall(r"Step \d", page.text) == ["Step 0", "Step 2", "Step 4"]
    assert re.findall(r"far\d|near\d", page.text) == ["far0", "far2", "far4"]
    # rewards 0, 1, 2 and a failure: the best is 2 with advantage 1 and 5 actions, the worst 0 with -1 and 3
    assert "reward 2 · correct 2 · mean advantage 1.000 · 5 actions · ended by stopit is 2" in page.text
    assert "reward 0 · correct 0 · mean advantage -1.000 · 3 actions · ended by stopit is 0" in page.text


def test_a_step_of_failures_shows_one(run: RunFolder, group: Callable) -> None:
    failed = tuple(t.but(reward=Failed("<b>no</b>")) for t in group().trajectories)
    run.append_rollouts(0, [Group("g", failed)])
    run.append_rollouts(1, [])
    _, page = write(run)
    assert "reward failed: <b>no</b>" in page.text
    assert "This step has no trajectory." in page.text


def test_what_a_model_wrote_is_text(run: RunFolder, group: Callable, strange: Callable) -> None:
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>$title ${tiles} &amp; \x1b[31m\x00" + "x" * 7000
    one = group(size=1)
    run.append_rollouts(0, [Group("g", tuple(t.but(completion=evil) for t in one.trajectories)), *strange()])
    text, page = write(run)
    assert "</pre><script>alert(1)</script><img src=x onerror=alert(1)>$title ${tiles} &amp; \ufffd[31m\ufffdxxx" in page.text
    assert "more characters" in page.text
    assert not [tag for tag, _ in page.tags if tag in ("script", "img", "link", "iframe")]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name in ("src", "href")]
    assert "http://" not in text
    assert "https://" not in text


def test_flat_by_hand() -> None:
    document = {
        "part": "gradus.recipe.core:Recipe",
        "objective": {"map": {"policy": {"part": "x:Policy", "high": 0.2, "none": None}}},
        "requires": {"set": ["a", "b"]},
        "rule": {"function": {"file": "my.py", "name": "score", "sha256": "0"}},
        "stages": [{"until": 3}, {"until": 5}],
        "plain": [1, 2],
    }
    assert list(flat(document)) == [
        ("", "Recipe"),
        ("objective.policy", "Policy"),
        ("objective.policy.high", "0.2"),
        ("requires", "a b"),
        ("rule", "score"),
        ("stages.0.until", "3"),
        ("stages.1.until", "5"),
        ("plain", "1 2"),
    ]
