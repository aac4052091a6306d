"""Webscale-RL: documents become short questions with answers that can be checked, and GRPO trains on the questions, not on the documents.

    d -> "filter" -> "label" -> "generate" -> "check" -> (q, a)
    r = 1 "if the answer to" q "is" a, "else" 0
    A_i = (r_i - mean(r)) / (std(r))

The pipeline (`gradus.tasks.data.pipeline`) has four stages. Filter: three kinds of documents are dropped: short documents, documents of repeated
sentences, and documents without a fact that can be checked. Label: each document d gets a domain and up to three personas, that is kinds of readers.
Generate: each persona gets questions q with all necessary context, each with a short answer a. Check: a pair is dropped if q contains a, if d does not
contain a, or if q shares 13 words in a row with a question of the evaluation. A pair keeps domain, persona and document. In RL the policy sees q
alone and answers from memory. The comparison is continued pre-training on the same documents: `sft --rollout PlainText`. A task has such pairs if its
problems have the column `documents`, as in the task `facts`. The documents of `facts` are made up, and templates replace the language model that labels,
writes and checks.

Use if: there are many documents with facts, questions with answers are few, and some samples of the policy have the right answer.
Avoid if: the policy never guesses the answer, because then no group has a gradient (see sft, or spark_prover_x1 for documents first), or the policy
should look facts up (see webthinker).
Reference: Cen et al., Webscale-RL: Automated Data Pipeline for Scaling RL Data to Pretraining Levels, arXiv:2510.06499: the four stages, more than
nine domains, up to three personas, binary reward, GRPO, and continued pre-training as comparison. The authors' pipeline
(SalesforceAIResearch/PretrainRL-pipeline) asks one language model in each stage; its checker also drops questions that lack context.
Departures: The 13 words, the test of support by whole words, and the rules of the filter are our choices; in the paper a language model decides about
support and leaks. The rules follow the abstract and the released prompts. The released pipeline writes one question per persona, shows two examples
of the domain to the writer, and has ten domains; the task `facts` has three wordings of a persona's question, no examples and one domain. The
released code does not compare with questions of the evaluation and does not train. KL coefficient and clip are as in grpo.
"""

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

webscale_rl = grpo.derive(
    "webscale_rl",
    "Documents become short questions with checkable answers, and GRPO trains on these from memory.",
    family="data",
    requires=frozenset({"documents"}),
)

_SMALL = {"learning_rate": "5e-4", "warmup": "0", "eval_every": "0", "study.problems": "24", "study.greedy": "false"}

claims = (
    same_weights(
        says="The documents are for the pipeline alone: on the same questions the final weights are those of GRPO.",
        source="arXiv:2510.06499, RL with the questions alone",
        against="grpo",
        task="facts",
        model="gradus/policies/tiny/base",
        options={"documents": "8"},
    ),
    Claim(
        says=(
            "From a start model that knows the form of the answers but not the facts, 30 steps of GRPO on the questions give at least 10 points more "
            "accuracy on the same facts in other words than continued pre-training on at least as many tokens of the documents."
        ),
        source="arXiv:2510.06499, RL above continued pre-training at equal tokens; the size is ours: 8 documents, 24 held-out questions",
        against="sft --rollout PlainText --setting.prompts 8 --setting.group 1",
        measure="held_out/accuracy:gain",
        better_by=0.1,
        task="facts",
        options={"documents": "8"},
        fields=_SMALL,
        own={"setting.prompts": "8", "setting.group": "8"},
        budget="steps=30",
        script="benchmarks.warmed webscale_rl",
    ),
    same_weights(
        says="The same holds from the task's built-in model, whose answers earn rewards, so that the weights move.",
        source="arXiv:2510.06499, RL with the questions alone",
        against="grpo",
        task="facts",
    ),
)
