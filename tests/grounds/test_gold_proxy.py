"""Ground gold_proxy: a learned judge of few and noisy pairs, and the verifier for held-out answers."""

from gradus.comparison.calibrate import stored
from gradus.grounds.gold_proxy import gold_proxy


def test_the_judge_has_seen_200_pairs():
    judge = gold_proxy.judge
    assert judge is not None
    assert judge.steps * int(judge.fields["prompts"]) == 200 == int(judge.options["pairs"])
    assert judge.options["swapped"] == "0.15"


def test_its_calibration():
    found = stored(gold_proxy)
    assert found is not None
    assert not found["stale"]
    assert 0.2 < found["start"] < 0.6
    assert found["pair"]["separated"]
    best_of, grpo = found["arms"][:2]
    assert grpo["final"] < found["start"] < best_of["final"]  # the truth
    assert grpo["shows"]["reward:last"] > best_of["shows"]["reward:last"]  # the proxy
    assert grpo["shows"]["held_out/accuracy:drop"] > 0.3  # it rose before it fell
