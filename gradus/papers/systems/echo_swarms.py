"""Echo: two groups of machines. One swarm samples at its own speeds, and the other swarm trains; a pull mode or a push-pull mode synchronises the
weights.

    pull: v_w >= v - d_max, quad d_max = 0
    push-pull: 0 <= v - v_w <= d_max, quad d_max = 2
    worker of a request = argmin_w (free_w + 1/s_w)

Echo keeps the objective of GRPO; the ratio compares with the log-probabilities that are stored with each answer. The number v is the version of the training
weights, and $v_w$ is the version of the weights of worker w. A sampling worker may be any machine, so speeds differ.

Pull mode (`--system.staleness 0`): the trainer asks for a batch. Each worker first takes the current weights, and the trainer waits for all answers.
So every answer trains the same weights that sampled it, and the result has the same bytes as a run on one machine. Push-pull mode (the default): workers
sample without a pause and store their answers with their version. The trainer takes the newest stored answers. Answers more than d_max = 2 versions
old are dropped, counted in the metric `stale`, and sampled again. New weights are published after each update, and a worker takes them before its
next group.

A request goes to the worker that is expected to finish it first. $free_w$ is the time until the worker is free, and $s_w$ its measured speed in
groups per second. So workers with delays 1, 2 and 4 get shares 4, 2 and 1. With `--system.deadline`, an idle worker also samples the request of a
late worker, and only the first answer counts.

Use if: samplers are cheap machines of unequal speeds, and the trainer should not wait for them.
Avoid if: all work is done by equal devices (see areal), or sampling takes a small part of a step (see grpo).
Reference: Xiao et al., Echo: Decoupling Inference and Training for Large-Scale RL Alignment on Heterogeneous Swarms, arXiv:2508.05387: the two modes and
the versions of the buffer.
Departures: The paper's text was not available; public summaries describe the two modes without numbers. Our own choices are d_max = 2, one
publication per update, the rule that chooses the worker of a request, and the second sample of a late request. The unit of the buffer is a group of
answers. At most P (d_max + 1) requests are open at the same time, with P prompts per step; the paper's workers sample without a limit. There is no
pull mode with d_max above 0. Workers are threads, or processes with `--system.workers_in processes`, on one machine. Weights are copied as they are;
the paper may quantise them. A worker that itself consists of several machines (Parallax) is left out.
"""

from gradus.objectives.ratios import TokenRatio
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types.systems import Streaming

echo_swarms = grpo.derive(
    "echo_swarms",
    "Workers of unequal speeds sample, another machine trains; a pull mode or a push-pull mode synchronises their weights.",
    family="systems",
    objective__policy__ratio=TokenRatio(against="behaviour"),
    system=Streaming(staleness=2, workers=3, trains_on="newest", dispatch="speed"),
)

claims = (
    same_weights(
        says="In pull mode with one worker, the final weights are those of a run in one place.",
        source="arXiv:2508.05387, the sequential mode (no bias)",
        against="grpo --objective.policy.ratio.against behaviour",
        own={"system.staleness": "0", "system.workers": "1"},
    ),
    same_weights(
        says="In pull mode with three workers, the final weights are those of a run in one place.",
        source="arXiv:2508.05387, the sequential mode (no bias)",
        against="grpo --objective.policy.ratio.against behaviour",
        own={"system.staleness": "0"},
    ),
    Claim(
        says="With workers of delays 1, 2 and 4, push-pull mode needs at most 0.7 times the wall time of pull mode for as many samples.",
        source="arXiv:2508.05387, the asynchronous mode (hardware utilisation); the factor, the task, the delays and the program are ours",
        against="echo_swarms --system.staleness 0",
        measure="seconds",
        at_most=0.7,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "7", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=15",
        script="benchmarks.swarm seconds",
    ),
    Claim(
        says="In the same runs, the mean reward of the last five steps in push-pull mode is at least 0.9 times that in pull mode.",
        source="arXiv:2508.05387, equal convergence and final reward; the factor, the task, the delays and the program are ours",
        against="echo_swarms --system.staleness 0",
        measure="reward",
        at_least=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "7", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=15",
        script="benchmarks.swarm reward",
    ),
)
