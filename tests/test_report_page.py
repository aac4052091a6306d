"""The report in a browser: no overflow at 400 and 1,400 pixels, no console error, a search that filters, all shown without JavaScript.

Needs Chromium at /usr/bin/chromium (or GRADUS_CHROMIUM) and the extra `browser`. GRADUS_SCREENSHOTS names a folder that keeps the pictures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gradus
from gradus.lab.folder import RunFolder
from gradus.lab.report import write_report
from gradus.types import Failed, FailureKind, Group

CHROMIUM = os.environ.get("GRADUS_CHROMIUM", "/usr/bin/chromium")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update")
SMALL: dict[str, Any] = {"setting__prompts": 4, "setting__group": 4, "study__problems": 8}
WIDTHS = (400, 1400)

REWARD = """
def score(completions, **columns):
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    if any(len(text) % 3 == 0 for text in texts):
        raise ValueError("the judge has no opinion of " + repr(texts)[:40])
    return [float("nan") if len(text) % 5 == 0 else len(text) / 10 for text in texts]
"""

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of all runs, made before the browser starts: its event loop would forbid the training's."""
    return {make.__name__: write_report(make(tmp_path_factory.mktemp(make.__name__) / "run")) for make in RUNS}


@pytest.fixture(scope="module")
def browser(pages: dict[str, Path]) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}; name one with GRADUS_CHROMIUM")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


def single(home: Path) -> Path:
    gradus.train("grpo", task="arithmetic", steps=6, run=home, **SMALL, setting__eval_every=2)
    return home


def multi(home: Path) -> Path:
    gradus.train("grpo", task="frozen_lake", steps=2, run=home, **SMALL)
    return home


def flow(home: Path) -> Path:
    gradus.train("flow_grpo", task="flow_2d", steps=3, run=home, **SMALL)
    return home


def resumed(home: Path) -> Path:
    gradus.train("grpo", task="arithmetic", steps=3, run=home, **SMALL)
    gradus.resume(home, more=60)
    return home


def failing(home: Path) -> Path:
    (home.parent / "judge.py").write_text(REWARD)
    spec = f"{home.parent / 'judge.py'}:score"
    gradus.train("grpo", task="arithmetic", reward=spec, steps=4, run=home, **SMALL, setting__max_failed=1.0)
    return home


def no_step(home: Path) -> Path:
    gradus.train("grpo", task="arithmetic", steps=0, run=home, **SMALL)
    return home


def hostile(home: Path) -> Path:
    """A run on a file with a long path whose answers break out of tags, overflow, run from right to left, or are huge."""
    evil = (
        "</script></pre></article><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">",
        "unbreakable" * 2000,
        "שלום עולם \u202e هذا نص طويل جدا " * 40,
        "<&\"'" * 250_000,
        "\x00\x1b[31m\ud800 $title ${answers}",
    )
    single(home)
    run = RunFolder.open(home)
    stored = run.rollouts([0])
    run.cut_back(0)
    run.replan({**run.recipe(), "task": f"/{'a-long-folder-name/' * 12}problems-with-a-name-of-many-words.jsonl"})
    for step in range(120):
        groups = []
        for n, (_, group) in enumerate(stored):
            texts = [evil[(step + n + i) % len(evil)] for i in range(len(group.trajectories))]
            problem = replace(group.trajectories[0].problem, messages=({"role": "user", "content": evil[(step + n) % 5]},), answer=evil[n % 3])
            rows = [t.but(completion=text, problem=problem) for t, text in zip(group.trajectories, texts, strict=True)]
            rows[-1] = rows[-1].but(reward=Failed(evil[0], FailureKind.TIMEOUT))
            groups.append(Group(group.key, tuple(rows)))
        if step in (0, 60, 119):
            run.append_rollouts(step, groups)
            run.append_failed(step, "train", [g.trajectories[-1] for g in groups])
        run.append_metrics(step, {"reward": 1e30 * (-1) ** step, f"reward/{'name' * 60}": 1e-30, "accuracy": 0.5, "failed": 4, "grad_norm": 1e9})
    return home


RUNS = (single, multi, flow, resumed, failing, no_step, hostile)


@pytest.fixture(params=RUNS, ids=lambda make: make.__name__)
def page(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Path:
    return pages[request.param.__name__]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_is_silent(browser: Any, page: Path, width: int, scheme: str) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda asked: said.append(asked.url) if not asked.url.startswith("file:") else None)
    tab.goto(page.as_uri())
    title = tab.title()
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    wide = tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    if folder := os.environ.get("GRADUS_SCREENSHOTS"):
        tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false; })")
        high = min(tab.evaluate("document.documentElement.scrollHeight"), 9000)  # a taller picture may exceed the memory
        name = f"{folder}/{page.parent.parent.name.rstrip('0123456789')}-{width}-{scheme}.png"
        tab.screenshot(path=name, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": high})
    tab.close()
    assert said == []
    assert wide[0] <= wide[1]
    assert title.startswith(("grpo on ", "flow_grpo on "))
    assert page.stat().st_size < 2_000_000


def test_the_search_filters(browser: Any, page: Path) -> None:
    tab = browser.new_page()
    tab.goto(page.as_uri())
    count = tab.locator("article").count()
    if not count:
        assert tab.locator("#find").count() == 0
        return
    assert tab.locator("article:visible").count() == count
    tab.fill("#find", "no answer has these words")
    assert tab.locator("article:visible").count() == 0
    assert tab.inner_text("#found") == f"0 of {count} answers"
    word = tab.locator("article header").first.text_content().split("·")[0].strip()
    tab.fill("#find", word.upper())
    assert 0 < tab.locator("article:visible").count() <= count
    tab.fill("#find", "")
    assert tab.locator("article:visible").count() == count
    tab.close()


def test_everything_is_shown_without_javascript(browser: Any, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator("article:visible").count() == tab.locator("article").count()
    assert tab.locator("#find:visible").count() == 0
    context.close()
