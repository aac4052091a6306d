"""Models that cannot read what a world shows, or cannot act in it; worlds that are used wrongly."""

from __future__ import annotations

from tests.bad_input.row import Row

WORLD = """from dataclasses import replace
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.types.parts import Turn
from gradus.types.spaces import Box, Choice

class World:
    {body}

    def start(self, problem, key, world):
        return Game()

class Game:
    first = Turn("go")

    async def step(self, action):
        return Turn("end", terminated=True)

def task():
    return replace(frozen_lake(), environment=World())
"""


def world(body: str) -> dict[str, str]:
    """A file with a task in a world of one's own."""
    return {"w.py": WORLD.format(body=body)}


LAKE = "train grpo --task frozen_lake --steps 1 --run run"
OWN = "train grpo --task w.py:task --steps 1 --run run"

ACTING: list[Row] = [
    (f"{LAKE} --task.show array", "task frozen_lake shows array, but the policy reads only text; make a controller with --players.policy.model Fresh"),
    (f"{LAKE} --task.show image --model {{home}}/model", "task frozen_lake shows image, but the policy reads only text; name a model that reads pictures"),
    (f"{LAKE} --task.show picture", "--task.show|picture|array"),
    (f"{LAKE} --players.policy.model Fresh", "Fresh makes a controller (for arrays|but this task shows text|name a model with --model"),
    ("train grpo --task arithmetic --players.policy.model Fresh --run run", "Fresh, whose sizes come from an environment, but task arithmetic has no environment"),
    ("train grpo --task cartpole --run run", "task cartpole shows array, but the policy reads only text; make a controller"),
    ("train grpo --task cartpole --model {home}/model --run run", "task cartpole shows array, but the policy reads only text; make a controller"),
    ("train flow_grpo --task cartpole --run run", "task cartpole shows array, but the policy reads only text"),
    ("train sft --task frozen_lake --task.show array --players.policy.model Fresh --run run", "needs problems with solution, which task frozen_lake does not"),
    ("{train} --rollout FlowSampling", "`rollout` is FlowSampling, which needs a policy that offers drawing; a flow generator offers it"),
    ("{train} --rollout DynamicSampling --rollout.rollout FlowSampling", "`rollout.rollout` is FlowSampling, which needs a policy that offers drawing"),
    (OWN, "task frozen_lake shows sound, but the policy reads only text; use another task", world('shows = frozenset({"text", "sound"})')),
    (OWN, "task frozen_lake accepts 2 numbers as an action, which this policy cannot produce", world("acts = Box((0.0, 0.0), (1.0, 1.0))")),
    (OWN, "environment.together is 0 (w.py, line 6); it must be a number of episodes, 1 or more", world("together = 0")),
]
