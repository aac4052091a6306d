"""Wrong combinations of the wider contracts: arms, stages, schedules, readers, heads, seats, media, actions, transitions."""

from __future__ import annotations

from tests.bad_input.readings import READINGS
from tests.bad_input.row import Row
from tests.own_parts import part

CONTRACTS: list[Row] = [
    ("{train} --curriculum Bandit", "curriculum is Bandit, which chooses between kinds of problems, but this task names none|a mixture"),
    (
        "train sec --task countdown --curriculum.arms countdown/9 --run run",
        'curriculum.arms names "countdown/9", which the task does not have; take some of countdown/1',
    ),
    (
        """{train} --schedule "Ramp(path='setting.steps',points=((0,5),))\"""",
        "schedule is Ramp|sets setting.steps to 5: the schedule changes setting.steps, which is read only when the run starts; choose a path in",
    ),
    (
        """{train} --schedule "Ramp(path='objective.kll.coefficient',points=((0,0.1),))\"""",
        'schedule is Ramp|unknown field "kll" (did you mean kl?)',
    ),
    (
        """{train} --schedule "Drawn(path='setting.temperature',choices=(1.0,-1.0))\"""",
        "schedule is Drawn|Setting.temperature is -1.0; it must be 0 or more",
    ),
    (
        "{train} --objective.policy.trust p.py:Mine",
        "objective.policy.trust is Mine (p.py, line|which has a state, but nothing gives a part at this place its state; take it out, or set it in",
        part("losses", "return surrogate(log_ratio, advantages), {}, state", fields="separable: ClassVar = True", start="return 0"),
    ),
    *READINGS,
]
