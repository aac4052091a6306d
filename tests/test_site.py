"""The documents as a site: formulas, copy buttons, links, counts, and the pages in a browser."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import look
from scripts.outputs import pages

ROOT = Path(__file__).parent.parent
PAGES = pages()
EXTRA = ("sphinx", "myst_parser", "furo", "sphinx_design", "sphinx_copybutton")
pytestmark = pytest.mark.skipif(any(importlib.util.find_spec(name) is None for name in EXTRA), reason="the extra docs is not installed")


@pytest.fixture
def formulas(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    return importlib.import_module("formulas")


class Added(SimpleNamespace):
    def add_js_file(self, name: str | None, **options: Any) -> None:
        self.names.append(name)


def test_a_formula_is_escaped_and_only_its_page_loads_mathjax(formulas: Any) -> None:
    assert formulas.markup('x < y\n  + "a"', "div") == '<div class="formula">⟦x &lt; y + &quot;a&quot;⟧</div>'
    for body, names in (("<p>no formula</p>", []), (f"<p>{formulas.markup('x', 'span')}</p>", [None, "mathjax/startup.js"])):
        app = Added(names=[])
        formulas.load(app, "page", "page.html", {"body": body}, None)
        assert app.names == names


def test_every_file_that_the_pages_load_is_in_the_package(formulas: Any, tmp_path: Path) -> None:
    formulas.copy(SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path), None)
    assert {str(p.relative_to(tmp_path / "_static" / "mathjax")) for p in tmp_path.rglob("*.js")} == set(formulas.FILES)


WORDS = {"four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "eighteen": 18, "twenty": 20, "thirty": 30}
THINGS = "recipes?|methods?|systems?|papers?|parts|tasks|commands|families|grounds|claims|lessons|mistakes|verifiers|environments"
COUNT = re.compile(rf"\b(\d[\d,]*|{'|'.join(WORDS)})(?: (?!of\b)[a-z-]+| kinds of){{0,3}}? (?:{THINGS})\b", re.I)
GENERATED = re.compile(r"<!-- generated: \w+.*?-->.*?<!-- end of generated -->", re.S)
CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1$", re.M | re.S)
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)|^:link: (\S+)$|(?:src|href)=\"([^\"]+)\"", re.M)


def lessons() -> int:
    return len(re.findall(r"^\| \[\d+\.", (ROOT / "docs/course/index.md").read_text(), re.M))


def curves() -> int:
    from scripts.figures.curves import DATA

    return len(json.loads(DATA.read_text()))


def kinds() -> int:
    from benchmarks.kills import KINDS

    return len(KINDS) + 2 * ("rloo" not in KINDS)  # a machine without a sandbox leaves out programs and tools


COUNTED = {
    "README.md": {"six recipes": curves},
    "docs/how/compare.md": {"six recipes": curves},
    "docs/how/grounds.md": {"six recipes": curves},
    "docs/how/survive.md": {"21 kinds of recipe": kinds},
    "docs/course/index.md": {"Six short lessons": lessons},
}


def prose(page: str) -> str:
    return CODE.sub("", GENERATED.sub("", (ROOT / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES)
def test_every_count_is_generated_or_compared(page: str) -> None:
    for found in COUNT.finditer(prose(page)):
        said = " ".join(found[0].split())
        assert said in COUNTED.get(page, {}), f'{page}: "{said}" is a count: generate it, or add it to COUNTED'
        number = WORDS.get(found[1].lower()) or int(found[1].replace(",", ""))
        assert number == COUNTED[page][said](), f"{page}: {said}"


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, without marks, blanks as hyphens."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"```\{include\} (\S+)\n```", lambda found: (page.parent / found[1]).read_text(encoding="utf-8"), page.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", CODE.sub("", text), re.M)}


def broken(page: str, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    from scripts.recipe_pages import FAMILIES, family_of

    made = {"index", *(f"{family}/index" for family in FAMILIES), *(f"{family}/{key}" for key, family in family_of().items())}
    wrong = []
    for target in (next(filter(None, groups)) for groups in LINK.findall(text)):
        path, _, anchor = target.partition("#")
        if target.startswith(("https://", "http://")):
            continue
        home = ROOT / "docs" if path.startswith("/") else (ROOT / page).parent
        file = Path(os.path.normpath(home / path.lstrip("/"))) if path else ROOT / page
        if file.is_relative_to(ROOT / "docs" / "recipes"):
            wrong += [] if str(file.relative_to(ROOT / "docs" / "recipes").with_suffix("")) in made else [target]
            continue
        file = file if file.exists() else file.with_name(f"{file.name}.md")
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert broken(page, CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))) == []


def test_a_broken_link_and_a_wrong_count_would_be_seen() -> None:
    text = "[a](concepts.md#no-such-heading) [b](gone.md) [c](recipes/bases/dapo.md) [d](recipes/bases/gone.md) [e](concepts.md#the-loop)"
    assert broken("docs/index.md", text) == ["concepts.md#no-such-heading", "gone.md", "recipes/bases/gone.md"]
    assert COUNT.search("There are 34 recipes")
    assert COUNT.search("all forty-two tasks") is None
    assert COUNT.search("twelve built-in tasks")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.nightly
def test_the_pages_are_built_without_a_warning(site: Path) -> None:
    asked = {"papers": "https://arxiv.org/abs/2503.14476", "commands": "--pass-at", "tasks": "countdown", "parts": "LeaveOneOut",
             "results": "Measurements", "reference/run": "gradus.train", "reference/parts/policy_loss": "gradus.objectives.trust.Clip"}
    for page, text in asked.items():
        assert text in (site / f"{page}.html").read_text(encoding="utf-8"), page


@pytest.mark.nightly
def test_pages_have_no_fault_in_a_browser(site: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    if not Path(look.CHROMIUM).exists():
        pytest.skip(f"there is no Chromium at {look.CHROMIUM}; name one with GRADUS_CHROMIUM")
    with look.browser() as opened:
        seen = [look.look(opened, site, page, width) for page in look.CHOSEN for width in look.WIDTHS]
    assert [one for one in seen if one.faults] == []
    assert any(one.formulas for one in seen)


@pytest.mark.nightly
def test_the_look_sees_a_wide_page_a_bad_formula_and_an_error(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    if not Path(look.CHROMIUM).exists():
        pytest.skip(f"there is no Chromium at {look.CHROMIUM}; name one with GRADUS_CHROMIUM")
    (tmp_path / "bad.html").write_text("<article><p style='width: 3000px'>wide</p><span class='formula'>x</span></article><script>gone()</script>")
    with look.browser() as opened:
        faults = " ".join(look.look(opened, tmp_path, "bad", 420, wait=500).faults)
    assert "pixels wide" in faults
    assert "formulas:" in faults
    assert "gone is not defined" in faults
