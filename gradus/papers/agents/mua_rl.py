"""MUA-RL: GRPO in dialogues with tools and a live user. The reward is the outcome alone: the final data base, and the facts that the user heard.

    r = 1 if D_T = D^* and every o in O occurs in a message, else 0
    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/G sum_i 1/|a_i| sum_t -min(rho_t A_i, clip(rho_t, 1 - 0.2, 1 + 0.2) A_i) + 0.001 KL

A user with a hidden wish speaks first. In each of up to 30 turns the agent writes a call of a tool or a message to the user. A call reads or changes
this episode's own data base. The user answers a message, and tells the wish in parts. $D_T$ is the data base at the end, and $D^*$ the data base after
the reference actions. O has the texts that the user must hear; only messages without a call count. The order of calls does not matter, and there is no reward
for form, steps or calls.

The group has 8 dialogues of the same task. Each dialogue has new random draws of the user (`--task.varied true`), so the agent meets other orders and
wordings. The loss has only the tokens $a_i$ of the agent; results of tools and words of the user are read but not learned. Stage `sft` imitates dialogues,
stage `rl` is GRPO.

Use if: an agent must ask a user for details, tools change a state, and the right final state is known.
Avoid if: the first message has all facts (see torl, retool), or a wish allows several right final states.
Reference: Zhao et al., MUA-RL: Multi-turn User-interacting Agent Reinforcement Learning for Agentic Tool Use, arXiv:2508.18669: the user in the rollout,
the reward, and the cold start. The group of 8, the KL weight 0.001 and one update per batch are as in the released script (zzwkk/MUA-RL), which compares
upper and lower case alike and removes commas from messages.
Departures: The user is a script with slots, random order, paraphrases and patience; in the paper it is GPT-4o. The task `orders` is our choice; the paper
plays the retail and airline tasks of tau-bench. The user tells the name only if asked. The agent ends a dialogue with the word "done", or the user
leaves; in the paper the user ends it. At 30 turns the final data base counts, as in the released code. A message to the user begins with "say:", and a
text without call or message only uses up a turn; in the released code every text without a call is a message, and a call that cannot be read ends the
dialogue. The released script averages the loss over all tokens of the batch, and takes the deviation of the sample; here each dialogue counts alike,
with the deviation of the population, as in grpo. The released script trains on files whose required outputs are empty, so its training reward is the
data base alone; here the outputs count in training, as in the paper. The cold start imitates an expert script; in the paper models play all sides and a
judge selects the dialogues. The lengths of the stages are our choice. The reference is the model at the start of stage `rl`.
"""

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen
from gradus.types.moments import Steps

mua_rl = grpo.derive(
    "mua_rl",
    "GRPO in dialogues with tools and a live user: the reward is 1 if the final data base is right and the user heard the required facts.",
    family="agents",
    rollout=Episodes(max_turns=30),
    reward=EnvironmentReturn(),
    objective__kl=KL(0.001),
    setting__group=8,
    schedule=Stages(Frozen(sft=Stage(sft, Steps(150)), rl=Stage(until=Steps(200)))),
)

_DESK = {"level": "1", "instruction": "false", "varied": "true"}

claims = (
    same_weights(
        says="From a start that was shown dialogues, the final weights of the second stage are those of GRPO with the KL weight 0.001.",
        source="arXiv:2508.18669, the objective",
        against="grpo --rollout Episodes(max_turns=30) --reward EnvironmentReturn --objective.kl.coefficient 0.001",
        own={"schedule": "ConstantSchedule"},
        task="orders",
        options=_DESK,
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=2",
        script="benchmarks.warmed mua_rl-limit",
    ),
    Claim(
        says=(
            "From a start that was shown dialogues, success on held-out customers is at least 0.05 above the same training with customers who tell everything "
            "in their first message."
        ),
        source="arXiv:2508.18669, the live user in the rollout; the row's 5 points; the task, the start and the sizes are ours",
        against="mua_rl --environment Orders(varied=True,open=True)",
        measure="held_out/accuracy:last",
        better_by=0.05,
        task="orders",
        options=_DESK,
        fields={
            "prompts": "4", "learning_rate": "1e-4", "eval_every": "0", "study.problems": "64", "study.greedy": "false", "schedule": "ConstantSchedule",
        },
        budget="steps=12",
        script="benchmarks.warmed mua_rl",
        seeds=3,
    ),
)  # fmt: skip
