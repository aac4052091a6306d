"""Curves: ticks, running means, and pictures that are well-formed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.lab.curves import HEIGHT, MOST_POINTS, WIDTH, Series, bars, chart, intervals, smooth, thinned, ticks, united


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),  # 1/4 = 0.25: 0.2 is the first of 0.1 0.2 0.5 that is at least 0.175
        (0, 200, [0, 50, 100, 150, 200]),
        (-0.3, 0.11, [-0.3, -0.2, -0.1, 0, 0.1]),
        (41, 68, [45, 50, 55, 60, 65]),  # 27/4 = 6.75: 5 is at least 4.725
        (3, 3, [3]),
    ],
)
def test_ticks_by_hand(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_lie_within(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert 2 <= len(found) <= 8
    assert all(low - 1e-6 * span <= t <= low + span * (1 + 1e-6) for t in found)


def test_running_mean_by_hand() -> None:
    # 1; (1 + 3)/2; (1 + 3 + 5)/3; (3 + 5 + 1)/3
    assert smooth([(0, 1.0), (1, 3.0), (2, 5.0), (5, 1.0)], 3) == [(0, 1.0), (1, 2.0), (2, 3.0), (5, 3.0)]


def paths(svg: str) -> list[list[tuple[float, float]]]:
    root = ElementTree.fromstring(svg)
    found = [p.attrib["d"] for p in root.iter("path")]
    return [[tuple(map(float, xy.split(","))) for xy in d.removeprefix("M").split("L")] for d in found]  # type: ignore[misc]


def test_a_line_goes_where_its_values_do() -> None:
    [line] = paths(chart("Reward", [Series("a", ((0, 0.0), (1, 1.0), (2, 0.5)))]))
    # x from 52 to 420 - 12 = 408; y from 230 - 26 = 204 for 0 up to 12 for 1.05: 1 is at 12 + 192 * 0.05 / 1.05 = 21.1
    assert line == [(52.0, 204.0), (230.0, 21.1), (408.0, 112.6)]


def test_many_points_have_a_mean_few_have_dots() -> None:
    many = tuple((i, float(i % 2)) for i in range(100))
    svg = chart("x", [Series("many", many), Series("few", ((0, 0.0), (50, 1.0)), dots=True)])
    root = ElementTree.fromstring(svg)
    assert [p.attrib["class"] for p in root.iter("path")] == ["faint", "line", "line"]
    assert [c.find("title").text for c in root.iter("circle")] == ["step 0: 0", "step 50: 1"]  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(-1e9, 1e9)), min_size=1, max_size=50))
def test_every_point_is_inside(points: list[tuple[int, float]]) -> None:
    for line in paths(chart("x", [Series("a", tuple(sorted(points)))])):
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in line)


def test_lines_that_coincide_are_one() -> None:
    same, other = ((0, 0.0), (1, 0.5)), ((0, 0.0), (1, 0.25))
    series = [Series("reward", same), Series("verified", same), Series("style", other), Series("none", ()), Series("accuracy", same)]
    assert united(series) == [Series("reward = verified = accuracy", same), Series("style", other)]
    svg = chart("Reward", series)
    assert len(paths(svg)) == 2
    assert "reward = verified = accuracy <b>0.5</b>" in svg


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=2500))
def test_a_thinned_line_keeps_its_ends_and_its_extremes(values: list[float]) -> None:
    points = list(enumerate(values))
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS
    assert kept == sorted(set(kept))  # in the order of the steps, each once
    assert set(kept) <= set(points)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert (min(v for _, v in kept), max(v for _, v in kept)) == (min(values), max(values))


def test_intervals_are_strokes_inside_the_frame() -> None:
    points = ((0, 0.5), (2, 1.0))
    [one] = united([Series("a", points), Series("b", points, spans=((0, 0.0, 0.75), (2, 0.5, 1.0)))])
    assert one == Series("a = b", points, spans=((0, 0.0, 0.75), (2, 0.5, 1.0)))
    root = ElementTree.fromstring(chart("x", [one]))
    [stroke] = [p.attrib["d"] for p in root.iter("path") if p.attrib["class"] == "span"]
    # y from 204 for 0 up to 12 for 1.05: 0.75 is at 66.9, 0.5 at 112.6, 1 at 21.1
    assert stroke == "M52.0,204.0V66.9M408.0,112.6V21.1"


def test_a_long_run_has_a_small_picture() -> None:
    svg = chart("x", [Series("a", tuple((i, float(i % 7)) for i in range(100_000)))])
    assert len(svg) < 20_000


def test_bars_by_hand() -> None:
    svg = bars("Rewards", ["0", "1"], [("early", [0.75, 0.25]), ("late", [0.0, 1.0])], about="answers")
    root = ElementTree.fromstring(svg)
    found = [(r.find("title").text, float(r.attrib["height"])) for r in root.iter("rect")]  # type: ignore[union-attr]
    # 192 units for 1 (the top is 1, not 1.05): 0.75 are 144, 0.25 are 48
    assert found == [("early, 0: 75.0%", 144.0), ("late, 0: 0.0%", 0.0), ("early, 1: 25.0%", 48.0), ("late, 1: 100.0%", 192.0)]
    assert root.find("svg").attrib["aria-label"] == "Rewards: early 0 75%, 1 25%; late 0 0%, 1 100%"  # type: ignore[union-attr]
    assert bars("Rewards", [], []) == ""


def test_names_are_escaped_and_nothing_is_nothing() -> None:
    assert "<b>bold</b>" not in bars("<i>", ["<b>bold</b>"], [("<b>bold</b>", [1.0])])
    assert chart("x", [Series("a", ())]) == ""
    assert "<b>bold</b>" not in chart("<i>", [Series("<b>bold</b>", ((0, 1.0),))])


def test_intervals_stand_under_their_names():
    drawn = intervals("Final", [("a<b", 0.5, 0.4, 0.6), ("w" * 80, 0.7, 0.7, 0.8)], about="mean")
    assert "a&lt;b" in drawn
    assert f"{'w' * 26}…" in drawn
    # the range 0.38 to 0.82 spans 52 to 408: 0.5 at 52 + 12/44 * 356 = 149.1, 0.4 at 68.2, 0.6 at 230.0
    assert 'd="M68.2,31H230.0"' in drawn
    assert 'cx="149.1"' in drawn
    assert "<ul" not in drawn
    assert intervals("Final", []) == ""


def test_more_lines_than_colours_are_dashed():
    drawn = chart("many", [Series(str(n), ((0, n), (1, n))) for n in range(7)])
    assert drawn.count("data-again") == 2  # the seventh line and its legend
