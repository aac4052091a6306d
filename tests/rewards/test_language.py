"""The language of a text, and the reward for one language throughout."""

from __future__ import annotations

from gradus.rewards.language import SameLanguage, language
from gradus.types import Frozen


def test_languages_are_scripts_or_given_alphabets():
    none = Frozen()
    assert [language(t, none) for t in ("seven", "семь", "7 + 7", "ab семь")] == ["LATIN", "CYRILLIC", "", "CYRILLIC"]
    assert language("код: `x = value_of(it)` и $sum_k x_k$", none) == "CYRILLIC"  # code and formulas do not count
    assert language("```python\nlong_name = 1\n``` да", none) == "CYRILLIC"
    both = Frozen(low="abcd", high="efgh")
    assert [language(t, both) for t in ("aef", "aab", "xyz")] == ["high", "low", ""]
    same = SameLanguage()
    assert same.value("how?", "<think>well</think> seven") == 1
    assert same.value("how?", "<think>ну</think> seven") == 0
    assert same.value("3+4", "<think>ну</think> 7") == 1  # a text without letters fits
    assert same.value("how?", "семь") == 0
