import pytest

from gradus.types import UserError
from gradus.types.moments import AverageWeights, Fallen, Level, Moment, Plateau, Steps


def test_progress_is_the_share_of_the_steps_done() -> None:
    assert Moment(0, 4).progress == 0.0
    assert Moment(3, 4).progress == 0.75
    assert Moment(0, 0).progress == 0.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: AverageWeights("a", "b", 1.5), "share"),
        (lambda: Steps(0), "count"),
        (lambda: Plateau(evaluations=0), "evaluations"),
        (lambda: Plateau(gain=-0.1), "gain"),
        (lambda: Level(most=0), "most"),
        (lambda: Fallen(most=0), "most"),
        (lambda: Fallen(to=0.0), "to"),
    ],
)
def test_numbers_out_of_range_are_refused(make, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make()
