"""Ground many_ways: every problem has many right answers, and the pair keeps or loses them."""

from gradus.comparison.calibrate import stored
from gradus.grounds.many_ways import many_ways
from gradus.training.plan import load_task
from gradus.types import Key


def test_problems_have_many_right_answers():
    task = load_task(many_ways.task, dict(many_ways.options))
    has = [p for p in task.held_out.draw(range(60), None, Key(0)) if p.question.startswith("has:")]
    assert has
    for problem in has:
        word = problem.question.removeprefix("has:").split()[0]
        answers = {f"1:{word} 2:{a} 3:{b}={word} {a} {b}" for a in ("sun", "sea", "ash") for b in ("sky", "oak", "elm")}
        assert sum(task.verify(problem, answer) for answer in answers) == len(answers) == 9


def test_its_calibration():
    found = stored(many_ways)
    assert found is not None
    assert not found["stale"]
    assert found["pair"]["separated"]
    kept, lost = found["arms"]
    assert kept["final"] > 2 * lost["final"]
    assert kept["shows"]["distinct"] > 1.5 * lost["shows"]["distinct"]
    assert abs(kept["accuracy"] - lost["accuracy"]) < 0.1
    assert lost["accuracy"] > 0.5  # it has settled, and is not lost
