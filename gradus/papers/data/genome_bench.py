"""Genome-Bench: GRPO on choice questions made from the threads of an expert forum, with one rule for the letter and one rule for the form.

    R = 2 dot 1{"letter right"} + 1{"form right"}
    A_i = (R_i - mean(R)) / (std(R))
    loss = GRPO with beta = 0.005

Each thread of e-mails becomes at most one question. The pipeline strips quotes and signatures, takes the first message as the question and the reply
of an expert as the answer, and drops threads without a reply. The pipeline writes five options: the cause that the expert names, three other causes,
and an option for not knowing. A thread is either in training or held out. The letter is the content of the last `<answer>` tag; without a tag it is
the last option letter that is a separate word. The form is right if the completion is `<explanation>...</explanation><answer>...</answer>`.

Metrics: reward/verified (share of right letters), reward/tags (share of right forms).

Use if: experts discussed many cases in public, and their replies name an answer that a program can compare.
Avoid if: replies disagree or name no single answer, or if worked solutions exist as well (see sft, luffy).
Reference: Yin et al., Toward Scientific Reasoning in LLMs: Training from Expert Discussions via Reinforcement Learning, arXiv:2505.19501, abstract,
and the released pipeline and training scripts: 3,332 questions of eleven years, rewards 2 and 1, groups of 4, KL coefficient 0.005, learning rate
1e-5, two epochs.
Departures: The threads of the task `forum` are about a made-up laboratory, and templates replace the models that extract and rewrite. Letters are
capitals. There may be blanks between the tags; the released code requires one line break. If there is no answer tag, the released code compares the
whole completion with the letter. The router over fine-tuned models and the labels of difficulty are left out.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.tags import Tags
from gradus.rewards.verified import Verified

genome_bench = grpo.derive(
    "genome_bench",
    "Choice questions from expert threads, with reward 2 for the right letter and 1 for the right form.",
    family="data",
    reward=2.0 * Verified() + Tags(("explanation", "answer")),
    objective__kl__coefficient=0.005,
    setting__group=4,
)

_FORUM = {
    "prompts": "32", "group": "4", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "128", "study.greedy": "false",
}  # fmt: skip

claims = (
    same_weights(
        says="With the verdict alone as reward, the final weights are those of GRPO with the same KL coefficient.",
        source="arXiv:2505.19501, the letter alone",
        against="grpo --objective.kl.coefficient 0.005",
        own={"reward": "Verified"},
    ),
    Claim(
        says="Held-out accuracy on questions from threads rises by at least 0.15 over the start model.",
        source="arXiv:2505.19501, abstract (over 15 % above the base model); the task and the number of steps are ours",
        measure="held_out/accuracy:gain",
        better_by=0.15,
        task="forum",
        options={"level": "1"},
        model="gradus/policies/tiny/words",
        fields=_FORUM,
        budget="steps=30",
    ),
)
