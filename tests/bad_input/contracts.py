"""Wrong combinations of the wider contracts: arms, stages, schedules, readers, heads, seats, media, actions, transitions, rubrics."""

from __future__ import annotations

from tests.bad_input.readings import READINGS
from tests.bad_input.row import TRAIN, Row
from tests.own_parts import part

STAGED = TRAIN.replace("grpo", "p.py:mine").replace(" --steps 1", "").replace(" --study.problems 2", "")
HEAD = """from gradus import Recipe, load_recipe
from gradus.schedules.harvests import RightAnswers
from gradus.schedules.stages import Merge, Stage, Stages
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.moments import Level, Plateau, Steps
from gradus.types.players import Copy, Head, Player

sft, grpo, ppo, reward_model = (load_recipe(name) for name in ("sft", "grpo", "ppo", "reward_model"))
"""


def staged(stages: str, told: str, more: str = "study=HeldOut()") -> Row:
    """A recipe `mine` of these stages, and what is said to it."""
    return (STAGED, told, {"p.py": f"{HEAD}mine = Recipe('mine', schedule=Stages(Frozen({stages})), {more})\n"})


STAGES: list[Row] = [
    staged("a=Stage(grpo, start='b'), b=Stage(grpo)", "stage a starts from stage b, which comes later; name an earlier stage"),
    staged("a=Stage(grpo), b=Stage(grpo, start='c')", 'unknown stage "c"|Stage b starts from it; add it to the stages before b'),
    staged("a=Stage(grpo), b=Stage(grpo, start='b')", "stage b starts from itself|name an earlier stage"),
    staged("a=Stage(grpo), b=Stage(sft, task='made:a')", "stage b reads made:a, but stage a makes no rows|makes=RightAnswers()"),
    staged("b=Stage(sft, task='made:a')", 'unknown stage "a"|Stage b reads the rows of it'),
    staged("a=Stage(sft)", "stage a: recipe sft needs problems with solution, which task problems does not provide|add them as columns"),
    staged("a=Stage(grpo, makes=RightAnswers)", "stage a: `makes` is the class RightAnswers|give an instance of it: RightAnswers()"),
    staged("a=Stage(grpo, makes=HeldOut())", "stage a: `makes` is HeldOut|which has no rows; write a class with a method rows(groups), and with a field `provides`"),
    staged("a=Stage(grpo, players=Frozen(judge='a.policy'))", 'unknown player "judge"|Stage a gives it the weights of a.policy; add it to the players'),
    staged("a=Stage(grpo), b=Stage(grpo, players=Frozen(reference='a'))", 'players.reference is "a"; write stage and player, for example "a.policy"'),
    staged("a=Stage(grpo), b=Stage(grpo, players=Frozen(reference='a.critic'))", 'unknown player "critic"|stage a has no such player'),
    staged("a=Stage(grpo), b=Stage(grpo, players=Frozen(policy='a.policy'))", '`start` gives the weights of the policy; write start="a"'),
    staged("a=Stage(ppo), b=Stage(grpo, players=Frozen(reference='a.critic'))", "a.critic has a value head and players.reference has no value head; give both"),
    staged("a=Merge(Frozen(b=0.5, c=0.5))", "stage a is a Merge and comes first, so there are no models to merge; put the stages"),
    staged("a=Stage(grpo), b=Merge(Frozen(a=0.5, c=0.5))", 'unknown stage "c"|Stage b merges it; add it to the stages before b'),
    staged("a=Stage(grpo), b=Merge(Frozen(a=0.5, c=0.6))", "the weights of a merge are a 0.5, c 0.6, and their sum is 1.1; give at least two stages"),
    staged("a=Stage(grpo, Plateau(), changes=Frozen({'setting.eval_every': 0}))", "the metric held_out/accuracy ends stage a, but `eval_every` is 0; set"),
    staged("a=Stage(grpo, Level(), changes=Frozen(study=None))", "the metric held_out/accuracy ends stage a, but no evaluation measures it|set study=HeldOut()"),
    staged("a=Stage(grpo, 100)", "stage a: `until` is a int; write Steps(100), Plateau(METRIC), Level(METRIC, at) or Fallen(METRIC, to)"),
    staged("a=Stage(grpo, screen=0.5)", "stage a: `screen` is a float; write Screened(low, high)"),
    staged("a=Stage('grpo')", "stage a: its recipe is a str; give a Recipe, or None for the recipe of the run"),
    staged("a=Stage(grpo.but(schedule=Stages(Frozen(b=Stage(grpo)))))", "stage a: its recipe grpo has its own stages; add these stages to the stages of the run"),
    staged("a=Stage(grpo, changes=Frozen({'credit.scal': 1}))", 'stage a, changes: unknown field "scal" (did you mean scale'),
    staged("a=Stage(grpo, task='arithmetics')", 'unknown task "arithmetics" (did you mean arithmetic'),
    staged("a=Stage(grpo, task='frozen_lake', makes=RightAnswers())", "which reads answers of one turn, but task frozen_lake is played in an environment"),
    staged("a=Stage(grpo)", "recipe mine sets credit, but each of its stages has its own recipe|leave credit out", "credit=grpo.credit"),
    staged("a=Stage(load_recipe('flow_grpo'))", "stage a: `rollout` is FlowSampling, which needs a policy that offers drawing|or another recipe"),
    (f"{STAGED} --processes 2", "a run with stages trains in one process; leave --processes out", {
        "p.py": f"{HEAD}mine = Recipe('mine', schedule=Stages(Frozen(a=Stage(grpo))))\n"}),
    (f"{STAGED} --steps 1", "--steps is 1, but 2 stages in 1 rounds need at least one step per stage and round; give 2 or more", {
        "p.py": f"{HEAD}mine = Recipe('mine', schedule=Stages(Frozen(a=Stage(grpo), b=Stage(grpo))))\n"}),
    ("train grpo:1,gpro:2 --run run", 'unknown recipe "gpro" (did you mean gspo or grpo'),
    ("screen arithmetic {home}/problems.jsonl", "problems.jsonl exists already; name another file"),
    ("screen arithmetic rows.txt", "rows.txt does not end in .jsonl; choose a name with this ending"),
    ("screen arithmetic rows.jsonl --keep 0.9", '--keep is "0.9"; write two pass rates with two dots'),
    ("screen arithmetic rows.jsonl --keep 0.9..0.1", "Screened.low is 0.9, which is above Screened.high (0.1); set `low` to 0.1 or less"),
    ("screen {home}/unanswered.jsonl rows.jsonl --model {home}/model", "no verifier that judges answers|--reward"),
    ("{train} --task.problems {home}/problems.jsonl", "problems.jsonl, line 1 is not a stored problem|give a file from gradus screen or from a stage"),
]
CONTRACTS: list[Row] = [
    ("train grpo --task frozen_lake --rollout Seats --run run", 'the environment of task "frozen_lake" names no seats; take a task of several seats'),
    (
        "train at_grpo_roles --task sokoban --run run",
        'unknown seat "checker"|In rollout.play.roles for task "sokoban"',
    ),
    ("train grpo --task sokoban --task.team true --study.problems 2 --prompts 2 --run run", 'the environment asks "checker" to act|set --rollout Seats'),

    # sub-agents and ranked pairs
    ("train webthinker --task countdown --run run", 'which is for tasks with an environment, but task "countdown" has no environment'),
    (
        "train p.py:mine --task research --run run",
        'unknown player "reader"|rollout.roles of Episodes names it; add it to players',
        {"p.py": f"{HEAD}mine = load_recipe('webthinker').but(schedule=grpo.schedule, rollout__roles=Frozen(explorer='reader'))\n"},
    ),
    (
        STAGED,
        "selection compares trajectories by Fewer(turns), but task problems has no environment|use a task of many turns, or leave the criterion out",
        {"p.py": f"{HEAD}from gradus.selection.pairs import Fewer, RankedPairs\nmine = grpo.but(selection=RankedPairs(by=(Fewer(),)))\n"},
    ),
    ("train webthinker --task research --rollout.errand_turns 0 --run run", "Episodes.errand_turns is 0; it must be 1 or more"),
    ("train webthinker --task research --task.direct 2 --run run", "research: `direct` is 2|a number from 0 to 1"),
    ("{train} --selection RankedPairs --selection.by ()", "RankedPairs: `by` is empty|give at least one criterion, such as Right, Fewer or"),
    ("{train} --selection RankedPairs --selection.most 0", "RankedPairs.most is 0; it must be 1 or more"),

    *STAGES,
    ("{train} --curriculum SuccessRates --curriculum.factor 0", "SuccessRates.factor is 0; it must be 1 or more"),
    ("{train} --curriculum SuccessRates --curriculum.choice Clip", "curriculum.choice cannot be Clip, which lacks pick"),
    (
        "{train} --curriculum SuccessRates --curriculum.choice InBand --curriculum.choice.low 0.8",
        "InBand.low is 0.8, which is above InBand.high (0.7); set `low` to 0.7 or less",
    ),
    ("{train} --curriculum Bandit", "the curriculum Bandit chooses between kinds of problems, but the source of this task names no kinds|a mixture"),
    ("{train} --curriculum Window --run run --curriculum.by.name colour", "has no number in the column colour; name another column, or take another task"),
    ("{train} --curriculum UpperBound --curriculum.window 0", "UpperBound.window is 0; it must be 1 or more"),
    (
        "train sec --task countdown --curriculum.arms countdown/9 --run run",
        'curriculum.arms names "countdown/9", which the task does not have; choose from countdown/1',
    ),
    (
        """{train} --schedule "Ramp(path='setting.steps',points=((0,5),))\"""",
        "the schedule is Ramp|sets setting.steps to 5: the schedule changes setting.steps, which the run reads only at its start; choose another path",
    ),
    (
        """{train} --schedule "Ramp(path='objective.kll.coefficient',points=((0,0.1),))\"""",
        'the schedule is Ramp|unknown field "kll" (did you mean kl?)',
    ),
    (
        """{train} --schedule "RandomChoice(path='setting.temperature',choices=(1.0,-1.0))\"""",
        "the schedule is RandomChoice|Setting.temperature is -1.0; it must be 0 or more",
    ),
    (
        "{train} --objective.policy.trust p.py:Mine",
        "`objective.policy.trust` is Mine (p.py, line|This part has a state, but a part in this field gets no state; remove the part.",
        part("losses", "return surrogate(log_ratio, advantages), {}, state", fields="separable: ClassVar = True", start="return 0"),
    ),
    *READINGS,
    # controllers and transitions
    ("train sac --task countdown --run run", '`rollout` is Lanes, which is for tasks with an environment, but task "countdown" has no environment'),
    ("train sac --task frozen_lake --run run", "Lanes is for environments that show arrays, but task frozen_lake shows text|a task for controllers"),
    ("train sac --task cartpole --run run", "whose policy has no drawn|use a task whose actions are numbers (Box)"),
    ("train grpo --task pendulum --run run", "task pendulum shows array, but the policy reads only text|--players.policy.model Fresh"),
    ("train cql --task pendulum --run run", "recipe cql needs problems with transitions|add them with dataclasses.replace(task, transitions="),
    ("train sac --task pendulum --players.target none --run run", 'reads QValues of player "target", but recipe sac has only the players'),
    ("train sac --task pendulum --selection Everything --run run", "SoftPolicy, which needs rows|set --selection TransitionReplay"),
    (
        "train grpo --task frozen_lake --selection TransitionReplay --run run",
        "TransitionReplay is for environments that show arrays, but task frozen_lake shows text",
    ),
    ("train sac --task pendulum --players.critic.model.kind gru --run run", '`kind="gru"` does not work with `outputs="q"`|stores no earlier observations'),
    ("train sac --task pendulum --players.policy.model.kind cnn --run run", "a cnn reads one array [height, width, channels]|set --players.policy.model.kind mlp"),
    ("train sac --task pendulum --players.policy.model.heads 3 --run run", 'heads is 3, but only a model with `outputs="q"`'),
    ("train sac --task pendulum --update Delayed --update.after twin --run run", "twin"),
    # examples before a question
    ("train prompt_pg --task frozen_lake --run run", "environment is DrawnExamples, which judges single answers, but task frozen_lake has no verifier"),
    ("train prompt_pg --task tables --task.problems 12 --run run", "20 candidates, but task tables has 12 training problems; set --environment.candidates 12"),
    ("train prompt_pg --task tables --environment.shots 20 --run run", "DrawnExamples.candidates is only 20; set `candidates` to more than `shots`"),
    (
        "train prompt_pg --task tables --environment.candidates 40 --environment.shots 21 --run run",
        "an episode of DrawnExamples has at least 21 turns, but rollout.max_turns is 20, so no episode would end; set --rollout.max_turns 21 or more",
    ),
    ("train prompt_pg --task tables --environment.width 96 --run run", "a hidden state of player encoder has 160 numbers, but environment.width is 96; set"),
    (
        "train prompt_pg --task tables --environment.encoder policy --run run",
        "environment.encoder of DrawnExamples is player policy, which is not a language model with all of these abilities: hidden|set --environment.encoder",
    ),
    ("train prompt_pg --task tables --players.policy.model.hidden 64,64 --run run", 'a pointer is one linear layer for choices|set `outputs` to "actions"'),
    ("train prompt_pg --task tables --environment.worker judge --run run", 'unknown player "judge"'),
    (
        "train ppo --task pendulum --players.policy.model \"Fresh(kind='pointer',hidden=(8,))\" --rollout Lanes --credit GAE "
        "--players.reference none --run run",
        "a pointer chooses one of several candidates, but this environment accepts 1 numbers; set --players.policy.model.kind mlp",
    ),
    (
        "train ppo --task cartpole --players.policy.model \"Fresh(kind='pointer',hidden=(8,))\" --rollout Lanes --credit GAE "
        "--players.reference none --run run",
        "a pointer reads the arrays query [d], candidates [2, d] and optionally barred [2], but the environment shows state [4]; give the arrays",
    ),
    ("train sac --task pendulum --model {home}/model --run run", "is another kind of model or has other fields; leave out --model to start with fresh weights"),
    (
        "train sac --task pendulum --players.critic.objective.conservative Conservative --players.critic.objective.conservative.floor to_go --run run",
        "Conservative, which needs to_go, but no other part of the recipe gives to_go; set --rollout Recorded --rollout.gamma 0.99",
    ),
    # masked models
    ("train grpo --task sudoku4 --run run", 'objective.kl reads LogProbs of player "reference", whose policy has no logprobs; a language model offers it'),
    ("train coupled_grpo --task frozen_lake --run run", '`rollout` is Unmasking, which is for tasks of one turn|"frozen_lake" is played in an environment'),
    (
        "train coupled_grpo --task arithmetic --run run",
        "Unmasking, which needs a policy that offers unmasking; a masked language model offers it: use a task for such a policy",
    ),
    ("train coupled_grpo --objective.policy.masks.low 0.9 --run run", "Coupled.low is 0.9 and Coupled.high is 0.8; set `low` to 0.8 or less"),
    # a rubric, its judge and its reviser
    ("train rloo --task arithmetic --reward SoundSteps --run run", "the verifier of task arithmetic has no `steps`; take a task with checked steps, such as flawed"),
    ("train rloo --task flawed --task.letters 0 --run run", "task flawed: `letters` is 0; give 1 or more"),
    ("train rloo --task loophole --task.pays 0.5 --run run", "task loophole: `pays` is 0.5; give 1 or more"),
    ("train dpo --task noisy_pairs --task.swapped 30 --run run", "task noisy_pairs: `swapped` is 30.0; give a share, a number from 0 to 1"),
    ("train dpo --task noisy_pairs --task.pairs 0 --run run", "task noisy_pairs: `pairs` is 0; give 1 or more"),
    ("train mpo_meta --task arithmetic --reward.reward.parts.rubric.judge ScriptedPoints --run run", "neither ScriptedPoints nor task arithmetic has checks"),
    (
        "train mpo_meta --task arithmetic --reward.reward.parts.rubric.reviser ScriptedReview --run run",
        "neither ScriptedReview nor task arithmetic has checks|give ScriptedReview checks, or take",
    ),
    ("train p.py:mine --task stories --run run", 'unknown criterion "It is kind."|ScriptedPoints has no check for it on task stories', {
        "p.py": f"{HEAD}from gradus.rewards.judge import Criterion, ScriptedPoints\nfrom gradus.rewards.rubric import Rubric\n"
        "mine = ppo.but(reward=Rubric((Criterion('It is kind.'),), ScriptedPoints()))\n"}),
    ("train mpo_meta --task stories --players.meta none --run run", 'unknown player "meta"|reviser.player of MetaReview names it; add it to players'),
    ("train mpo_meta --task stories --curriculum SuccessRates --run run", "SuccessRates, which needs to know the right answers|set --curriculum ShuffledEpochs"),
    ("train mpo_meta --task stories --selection Mixed --run run", "Mixed, which needs to know the right answers, but Standardised gives only scores"),
    ("train mpo_meta --task stories --reward.reward.parts.rubric.reviser.merge all --run run", "MetaReview.merge does not contain {rubrics}; add {rubrics}"),
    # branches of episodes
    ("train arpo --task twenty_questions --run run", 'episodes of task "twenty_questions" cannot be copied|`fork(key)` in the episode and set `forks = True`'),
    ("train arpo --task countdown --run run", 'Episodes, which is for tasks with an environment, but task "countdown" has no environment'),
    ("train grpo --task frozen_lake --rollout Episodes --credit SharedPrefix --run run", "SharedPrefix, which needs branches|--rollout Branches"),
    ("train arpo --task frozen_lake --rollout.share 0 --run run", "share is 0"),
    ("train arpo --task frozen_lake --rollout.copies 1 --run run", "copies is 1"),
]
