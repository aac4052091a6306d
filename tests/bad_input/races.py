"""Races that cannot be held."""

from __future__ import annotations

from tests.bad_input.row import Row

RACES: list[Row] = [
    ("race grpo rloo --family bases", "--family bases and the recipes grpo, rloo both name the contestants"),
    ("race --family credits", 'unknown family "credits" (did you mean credit'),
    ("race grop rloo", 'unknown recipe "grop" (did you mean grpo'),
    ("race grpo grpo", "the arm grpo is given twice"),
    ("race grpo rloo --budget 2", '--budget is "2"; write the budget of all runs together: a duration such as 2h'),
    ("race grpo rloo --rates 0", '--rates is "0"; write different factors above 0'),
    ("race grpo rloo --try group", '--try is "group"; write a field and different values for this field'),
    ("race grpo rloo --try grouping=3", "--try names the field grouping, but no contestant accepts this field with these values"),
    ("race grpo rloo --measure auc", "--measure is auc, which needs full runs"),
    ("race grpo papo --rates 1", "a race needs two contestants or more, but the 2 named recipes give only 1|papo: recipe papo needs problems with images"),
    ("race grpo rloo --model gone", 'model folder "gone" does not exist'),
    ("race grpo rloo --run here", "here contains files but no race; name another folder with --run", {"here/mine.txt": "x"}),
]
