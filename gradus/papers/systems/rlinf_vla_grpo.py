"""RLinf-VLA with GRPO: whole episodes from one start are compared; steps after the success have no loss, and every episode has equal weight.

    A_i = (R_i - mean(R)) / (std(R))
    m_(i,t) = 1 if t <= T_i, else 0
    loss = 1/N sum_i 1/(sum_t m_(i,t)) sum_t m_(i,t) l_(i,t), quad l_(i,t) = -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)

The G = 8 episodes of a group begin in the same state. $R_i$ is 1 for success, else 0, and std is the deviation of the sample. $T_i$ is the step of
the first success, or the last step. Later steps have the mask 0. Later steps occur in an environment that continues after the success, and in the
part of the last chunk that is never executed. N is the number of episodes of the used groups. The loss of each episode is divided by the number of
its valid tokens, so a short success and a long failure have equal weight. One sum over all valid tokens would give the long episodes more weight
(`--objective.policy.average TokenMean --objective.policy.average.counted weighted`). A group is used if its mean reward is between 0.1 and 0.9; for 8
episodes, this drops the groups with only successes or only failures. There is no KL term.

The policy, the chunks, the pipeline and the levels of probability are as in rlinf_vla. `--credit.level chunk` masks whole chunks: the chunk with the
success keeps all its tokens.

Use if: episodes can begin again from the same state, and the only reward is the success at the end.
Avoid if: starts cannot be repeated, or nearly all groups have the same outcome (see rlinf_vla).
Reference: Zang et al. (Tsinghua University, Infinigence AI), RLinf-VLA: A Unified and Efficient Framework for VLA+RL Training, arXiv:2510.06710. The
numbers come from the released scripts (RLinf/RLinf, libero_10_grpo_openvlaoft): clip 0.2 and 0.28, groups of 8, mean reward between 0.1 and 0.9 of a
success, no KL term; the mean over episodes is masked_mean_ratio in the released code.
Departures: The departures of rlinf_vla also apply here. The released code adds 1e-6 to the deviation, samples at temperature 1.6 and gives 5 for a
success. In the released code N also counts the episodes of unused groups, so its loss is multiplied by the share of the used groups.
"""

from gradus.credit.chunks import UntilSuccess
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.pipelined import Pipelined
from gradus.selection.filters import MeanReward
from gradus.types.players import Fresh, Player

rlinf_vla_grpo = grpo.derive(
    "rlinf_vla_grpo",
    "Episodes from one start are compared; steps after the success are masked, and every episode is divided by its valid length.",
    family="systems",
    players__policy=Player(Fresh(bins=8)),
    players__reference=None,
    rollout=Pipelined(Episodes(), parts=2),
    reward=EnvironmentReturn(),
    selection=MeanReward(0.1, 0.9),
    credit=UntilSuccess(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=SequenceMean("weighted"),
    objective__kl=None,
)

PLAIN = "rlinf_vla_grpo --credit GroupRelative --credit.scale sample --objective.policy.average SequenceMean --objective.policy.average.counted all"

claims = (
    same_weights(
        says="Without the mask, the filter and the pipeline, the final weights are those of GRPO on episodes without a KL term, with the same two clips.",
        source="arXiv:2510.06710, GRPO without its design choices",
        against=(
            "grpo --objective.kl none --players.reference none --players.policy.model Fresh --players.policy.model.bins 8 --rollout Episodes "
            "--reward EnvironmentReturn --credit.scale sample --objective.policy.trust.high 0.28"
        ),
        own={
            "rollout": "Episodes",
            "selection": "Everything",
            "credit": "GroupRelative",
            "credit.scale": "sample",
            "objective.policy.average.counted": "all",
        },
        task="reacher",
    ),
    Claim(
        says="If episodes play on after the success, the mask and the division by the valid length raise the accuracy after 25 steps by at least 0.05.",
        source="arXiv:2510.06710, section on GRPO (mask of valid actions, normalisation by their number); the size of the effect and the task are ours",
        against=PLAIN,
        measure="accuracy",
        better_by=0.05,
        task="reacher",
        options={"ends": "false"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-3"},
        budget="steps=25",
    ),
    Claim(
        says=(
            "With four passes over two mini-batches, so that the policy moves further in 36 steps, the mask and the division by the valid length raise the "
            "accuracy by at least 0.05 if episodes play on after the success."
        ),
        source="as the claim before; after 25 single updates, the policy has hardly moved from its start",
        against=PLAIN,
        measure="accuracy",
        better_by=0.05,
        task="reacher",
        options={"ends": "false"},
        fields={
            "prompts": "8",
            "group": "8",
            "warmup": "0",
            "study": "none",
            "learning_rate": "3e-3",
            "update.epochs": "4",
            "update.count": "2",
        },
        budget="steps=36",
    ),
)
