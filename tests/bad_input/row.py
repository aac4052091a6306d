"""What a row of the table is: words that are typed, and what is said to them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.broken import Make

TRAIN = (
    "train grpo --task {home}/problems.jsonl --model {home}/model --run run "
    "--steps 1 --prompts 2 --group 2 --max_tokens 4 --study.problems 2"
)
"""A sound command, for which `{train}` stands in a row."""

# every row: words typed, what the sentence must contain (split at |), and the files that lie in the folder where they are typed
Row = tuple[str, str] | tuple[str, str, Mapping[str, "str | bytes | Make"]]
