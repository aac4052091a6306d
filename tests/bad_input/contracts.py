"""Wrong combinations of the wider contracts: arms, stages, schedules, readers, heads, seats, media, actions, transitions."""

from __future__ import annotations

from tests.bad_input.row import Row

CONTRACTS: list[Row] = [
    ("{train} --curriculum Bandit", "curriculum is Bandit, which chooses between kinds of problems, but this task names none|a mixture"),
    (
        "train sec --task countdown --curriculum.arms countdown/9 --run run",
        'curriculum.arms names "countdown/9", which the task does not have; take some of countdown/1',
    ),
    # controllers and transitions
    ("train sac --task countdown --run run", 'rollout is Lanes, which is for tasks with an environment, but task "countdown" has no environment'),
    ("train sac --task frozen_lake --run run", "Lanes is for worlds that show arrays, but task frozen_lake shows text|a task for controllers"),
    ("train sac --task cartpole --run run", "whose policy has no drawn|take a world whose actions are numbers (Box)"),
    ("train grpo --task pendulum --run run", "task pendulum shows array, but the policy reads only text|--players.policy.model Fresh"),
    ("train cql --task pendulum --run run", "recipe cql needs problems with transitions|add them with dataclasses.replace(task, transitions="),
    ("train sac --task pendulum --players.target none --run run", 'reads QValues of player "target", which recipe sac does not have; add it to players'),
    ("train sac --task pendulum --selection Everything --run run", "SoftPolicy, which asks for rows|set --selection TransitionReplay"),
    (
        "train grpo --task frozen_lake --selection TransitionReplay --run run",
        "TransitionReplay is for worlds that show arrays, but task frozen_lake shows text",
    ),
    ("train sac --task pendulum --players.critic.model.kind gru --run run", "a gru gives no q, because rows of a replay have no past; take an mlp"),
    ("train sac --task pendulum --players.policy.model.kind cnn --run run", "a cnn reads one array [height, width, channels]|take kind mlp"),
    ("train sac --task pendulum --players.policy.model.heads 3 --run run", "heads is 3, but only outputs q is an ensemble"),
    ("train sac --task pendulum --update Delayed --update.after twin --run run", "twin"),
]
