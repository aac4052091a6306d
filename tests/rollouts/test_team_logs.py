"""Logs of a team: the turns of a log, and a trace read back."""

from gradus.rollouts.team_logs import Activation, formed, log_of, turns_of


def test_a_log_and_its_text() -> None:
    log = [Activation("plan", "a"), Activation("web_search", "b", "c"), Activation("web_search", "d", ""), Activation("answer", "e")]
    pairs = turns_of(log)
    assert pairs == [("", "<plan>a</plan><web_search>b</web_search>"), ("c", "<web_search>d</web_search>"), ("", "<answer>e</answer>")]
    text = pairs[0][1] + "".join(f"<observation>{seen}</observation>{action}" for seen, action in pairs[1:])
    assert log_of(text) == log
    assert formed("".join(action for _, action in pairs))
    assert not formed(text)
