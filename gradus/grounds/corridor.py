"""corridor: an episode has up to 32 turns and one reward at its end. The reward shows only that the player found the way, not which turns were
wasted. There are four locked rooms. The key in a room fits one of four doors, and the player has to learn which door. A wrong door costs only a
turn. A player who tries random doors takes about 16 turns; a player who knows the doors takes 4. With eight turns per room nearly every
episode ends well. So the rewards of a group are nearly all equal, and a comparison of whole episodes gives no signal. But turns in the same
room differ: after some of these turns the reward comes sooner. The measure is the length of an episode in tokens, with two tokens per turn: 8 at
best, 32 for random doors.

The start model is the built-in model after ten steps on demonstrations. The start model names doors, but they are hardly more often correct than
random doors. Each turn has its own context without history, because only the key matters. A step has 64 episodes. Eight steps at a learning rate of
1e-4 are enough.
"""

from gradus.comparison.ground import Ground, Pair, Start
from gradus.types import Frozen

corridor = Ground(
    name="corridor",
    about="Long episodes that nearly all earn the same reward at their end, however many turns they waste.",
    task="corridor",
    options=Frozen(level="1", patience="8"),
    budget="steps=8",
    start=Start("sft", "corridor", 10, Frozen(level="1"), Frozen(prompts="4", group="4", learning_rate="3e-4", warmup="0")),
    fields=Frozen(
        {
            "learning_rate": "1e-4",
            "prompts": "8",
            "group": "8",
            "warmup": "0",
            "eval_every": "0",
            "study.problems": "8",
            "rollout": "Episodes",
            "rollout.history": "0",
            "rollout.max_turns": "32",
        },
    ),
    measures=("length", "accuracy"),
    pair=Pair(
        "gigpo",
        "episodes=gigpo --credit.omega 0",
        "length",
        "GiGPO compares turns in the same room by their discounted returns; without this term (omega 0) only whole episodes are compared.",
    ),
    seeds=6,
    problems=40,
    samples=1,
)
