"""SWE-RL: GRPO for edits that repair software. The reward is the similarity of the edit and the developer's edit, so no program runs in training.

    r = -1 "if the form is broken", quad r = 1/|F| sum_(f in F) s_f "otherwise"
    s_f = (2 M(d_f, hat d_f)) / (|d_f| + |hat d_f|)
    A_i = (r_i - mean(r)) / (std(r))

F is the set of files that the reply or the developer changed. $d_f$ and $hat d_f$ are the unified diffs of file f by the reply and by the developer, with 3
lines of context and without the two lines of the header. M is the number of characters in matching blocks (the module difflib, without its junk rule). $s_f$
is 0 if only one side changed f. A reply is a thought in <think> and SEARCH/REPLACE edits in <solution>. The form is broken if a tag does not occur exactly
once, if the thought or the edits are missing, if a SEARCH text does not occur at the start of a line of its file, or if an edit changes nothing. Every
occurrence of a SEARCH text is replaced. Two edits that cancel leave their file unchanged, and the file is then not in F.

The reward is continuous, so most groups have unequal rewards, although hardly any reply equals the developer's edit. `--reward.exact true` is the discrete
reward of the paper's ablation: 1 for an equal edit, 0 for another edit, -1 for a broken form. Evaluations run the hidden tests. Metrics: reward/form, the share
of replies with a sound form; accuracy is the share of edits that equal the developer's.

Use if: many repairs by developers exist, and the repaired programs cannot be run or are expensive to run.
Avoid if: tests run cheaply (see the task code with grpo), or good repairs often differ from the developer's, because a good but different repair earns less
than a failing repair that is nearly equal.
Reference: Wei et al., SWE-RL: Advancing LLM Reasoning via Reinforcement Learning on Open Software Evolution, arXiv:2502.18449, eq. 1 and 2, section 2
(groups of 16, 32 prompts) and the ablation of the discrete reward, and the released code (facebookresearch/swe-rl, reward.py).
Departures: The task `code_repair` makes modules with one planted fault, in place of pull requests; curation and the test-time scaffold are not part of the
recipe. A mark of an edit may have three to seven signs, such as <<<. An empty SEARCH text breaks the form; the released code inserts the text at every line.
Text outside both tags, or the tags in the other order, break the form; the released code only counts the tags. If edits cancel in all files and the
developer's edit is empty as well, r is 0 (released: 1). The recipe does not set the paper's 1600 steps and 16,384 tokens. The KL coefficient 0.04 and the
rate are as in grpo; the paper gives no coefficient. The reward `otherwise` judges a problem without files.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.environments.program_edits import EditError, proposed
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.overlap import match_ratio
from gradus.rewards.verified import Verified
from gradus.study.held_out import HeldOut
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.signals import Signal


def difference(old: str, new: str) -> str:
    """Returns the unified diff of two texts with 3 lines of context, without the two lines of its header. It is empty for equal texts."""
    return "\n".join(list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=3))[2:])


def similarity(files: Mapping[str, str], due: Mapping[str, str], said: Mapping[str, str]) -> float:
    """Returns the mean similarity of the diffs over all files that `due` or `said` change. `files`: path -> old text; `due`, `said`: path -> new text."""
    theirs, ours = ({path: d for path, text in new.items() if (d := difference(files.get(path, ""), text))} for new in (due, said))
    changed = sorted({*theirs, *ours})
    found = [match_ratio(ours[path], theirs[path]) if path in ours and path in theirs else 0.0 for path in changed]
    return sum(found) / len(found) if found else 0.0


@dataclass(frozen=True)
class PatchSimilarity(Combines):
    """The similarity of an edit and the developer's edit, or -1 for a reply with a broken form.

    Problems without files (columns `files` and `oracle`) are judged by the reward `otherwise`.
    """

    exact: bool = False  # True: 1 for an edit that equals the developer's, and 0 for any other edit
    broken: float = -1.0
    otherwise: Reward = Verified()
    name: ClassVar[str] = "patch"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.otherwise.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `otherwise` does not fit the task."""
        check_reward(self.otherwise, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = [g for g in groups if any("oracle" not in t.problem.meta for t in g.trajectories)]
        others = iter(await self.otherwise.score(plain, signals, world) if plain else ())
        return [next(others) if g in plain else [self.judged(t.completion, t.problem.meta) for t in g.trajectories] for g in groups]

    def judged(self, completion: str, meta: Mapping[str, Any]) -> Judgement:
        """Returns the judgement of a reply."""
        try:
            said = proposed(meta["files"], completion)
        except EditError:
            return Judgement(self.broken, Frozen({self.name: self.broken, "form": 0.0}))
        alike = similarity(meta["files"], meta["oracle"], said)
        value = float(alike == 1.0) if self.exact else alike
        return Judgement(value, Frozen({self.name: value, "form": 1.0}))


swe_rl = grpo.derive(
    "swe_rl",
    "Edits that repair a program are rewarded for their similarity to the developer's edit; no program runs in training.",
    family="agents",
    reward=PatchSimilarity(),
    study=HeldOut(reward=Verified()),
    setting__prompts=32,
    setting__group=16,
)

_TERMS = {"group": "8", "warmup": "0", "learning_rate": "3e-4", "study.greedy": "false"}

claims = (
    same_weights(
        says="On problems without files the final weights are those of GRPO.",
        source="arXiv:2502.18449, the objective is GRPO's; the limit is ours",
        against="grpo",
    ),
    Claim(
        says="The share of groups with a gradient is over 3 steps at least twice that of a reward of 1 for an equal edit and 0 otherwise, from the same start.",
        source="arXiv:2502.18449, the ablation of the reward (the discrete reward stays sparse); the factor is the row's; task, start and sizes are ours",
        against="swe_rl --reward.exact true --reward.broken 0",
        measure="informative:mean",
        at_least=2.0,
        task="code_repair",
        options={"level": "2"},
        fields={**_TERMS, "prompts": "8", "study": "none", "learning_rate": "0"},
        budget="steps=3",
        seeds=3,
        script="benchmarks.warmed swe_rl",
    ),
    Claim(
        says="After 24 steps the hidden tests of held-out faults pass in at least 0.1 more of the replies than before, though no test ran in training.",
        source="arXiv:2502.18449, table 1 (repair rises from the base model to SWE-RL); the size is the row's; task, start and numbers of steps are ours"
        "; stated again after a look: at a rate of 3e-4 the share fell in two of three seeds",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="code_repair",
        options={"level": "2"},
        fields={**_TERMS, "prompts": "8", "study.problems": "64", "eval_every": "24", "learning_rate": "1e-4"},
        budget="steps=24",
        seeds=3,
        script="benchmarks.warmed swe_rl-tests",
    ),
)
