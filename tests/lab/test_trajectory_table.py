"""One row a trajectory: what stands in it, by hand and against the groups that it came from."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gradus.lab.trajectory_table import schema, step_table, table


def test_a_row_says_what_the_trajectory_says(group):
    found = table([(3, [group()]), (4, [group("p2", size=1)])])
    assert found.schema == schema()
    assert found.column("step").to_pylist() == [3, 3, 3, 4]
    row = found.to_pylist()[1]
    trajectory = group().trajectories[1]
    context = trajectory.contexts[0]
    assert {name: row[name] for name in ("group", "id", "problem", "task", "text", "completion", "ended", "reward", "failed", "right")} == {
        **{"group": "p1", "id": "p1/1", "problem": "p1", "task": "arithmetic", "text": None, "completion": "it is 1"},
        **{"ended": "stop", "reward": 1.0, "failed": None, "right": True},
    }
    assert row["messages"] == [{"role": "user", "content": "p1: 1 + 1?"}]
    assert json.loads(row["answer"]) == 2
    assert row["components"] == [("correct", 1.0)]
    assert row["tokens"] == [[10, 11, 12, 13, 14, *context.tokens.tolist()]]
    assert row["chosen"] == [[False] * 5 + [True] * 4]
    assert row["actions"] == len(row["advantages"]) == len(row["logprobs"]) == len(row["versions"]) == 4
    np.testing.assert_array_equal(np.array(row["logprobs"], np.float32), context.logprobs)
    assert row["advantages"] == [0.0] * 4
    assert row["returns"] is None


def test_every_shape_of_rollout_has_its_rows(strange):
    found = step_table(0, strange())
    rows = {(r["group"], r["id"]): r for r in found.to_pylist()}
    assert list(rows) == [("one", "tree"), ("one", "rows"), ("one", "mixed"), ("one", "empty"), ("two", "tree")]
    tree, mixed, empty = rows["one", "tree"], rows["one", "mixed"], rows["one", "empty"]
    assert (empty["failed"], empty["reward"], empty["ended"], empty["actions"]) == ("it raised:\nno", None, "failed", 0)
    assert tree["failed"] == "no reward applied to this trajectory"
    assert [len(t) for t in tree["tokens"]] == [7, 7]  # 3 and 4 of its own; 5 inherited and 2 of its own
    assert [sum(c) for c in tree["chosen"]] == [4, 2]
    assert tree["actions"] == len(tree["logprobs"]) == 6
    assert mixed["components"] == [("length", -0.5)]  # what failed or does not apply has no number
    assert rows["one", "rows"]["logprobs"] is None
    assert rows["one", "rows"]["temperature"] == 0.7
    assert "\ud800" not in tree["text"]


def test_no_rollouts_are_an_empty_table():
    assert table([]).num_rows == 0
    assert table([(0, [])]).schema == schema()


def test_a_table_goes_through_parquet(tmp_path, group):
    pq = pytest.importorskip("pyarrow.parquet")
    made = table([(0, [group()])])
    pq.write_table(made, tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").equals(made)
