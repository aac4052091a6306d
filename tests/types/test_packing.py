import json

import pytest

from gradus.types import Frozen
from gradus.types.packing import packed, unpacked


@pytest.mark.parametrize(
    "value",
    [None, 1, 0.5, "a", True, (1, (2, [3])), [(), []], {"a": (1,), "map": {"b": []}}, {1: "a", (2, 3): {"x": 4}}, {"a": 1, 2: "b"}, {}],
)
def test_values_come_back_through_json_as_they_were(value):
    found = unpacked(json.loads(json.dumps(packed(value))))
    assert found == value
    assert isinstance(found, Frozen if isinstance(value, dict) else type(value))


def test_what_json_cannot_hold_is_seen():
    with pytest.raises(TypeError):
        json.dumps(packed({"a": {1, 2}}))
