"""A user's own parts: what a method returns, what it takes, what a class declares of itself, and names that are taken."""

from __future__ import annotations

from tests.bad_input.row import TRAIN, Row
from tests.own_parts import HEAD, credit, curriculum, instead, method, part, ratio, reward, rollout, term, then, trust

CREDIT, TRUST, RATIO, WEIGHT, AVERAGE, TERM, ROLLOUT, CURRICULUM, SELECTION, UPDATE, SCHEDULE, STUDY, OPTIMIZER = (
    f"{{train}} --{path} p.py:Mine"
    for path in (
        "credit",
        "objective.policy.trust",
        "objective.policy.ratio",
        "objective.policy.weight",
        "objective.policy.average",
        "objective.policy",
        "rollout",
        "curriculum",
        "selection",
        "update",
        "schedule",
        "study",
        "optimizer",
    )
)
MINE = TRAIN.replace("grpo", "p.py:mine")
JUDGED = MINE.replace(" --study.problems 2", "")
ASSIGN, LOSSES, LOG_RATIO, LOSS, RUN, SCORE, CHOOSE, KEEP = (
    f"Mine.{name} (p.py, line"
    for name in ("assign", "losses", "log_ratio", "loss", "run", "score", "choose", "keep")
)
SPREAD = "return spread(groups, [g.rewards for g in groups])"
SURROGATE = "return surrogate(log_ratio, advantages), {}"
PLAIN = "return -(outputs[LogProb()] * batch.advantages).sum(), {}"
ASKED = "return [Request(p, count=2) for p in problems]"
EACH = "return [[Credited({}) for t in g.trajectories] for g in groups]"
JUDGEMENT = "return [[Judgement({}) for t in g.trajectories] for g in groups]"
WITH = "return [g.but(trajectories=tuple(t.but({}) for t in g.trajectories)) for g in groups]"

CREDITS: list[Row] = [
    (CREDIT, f"{ASSIGN}|returned None; it must return one list per group, with one Credited", credit("pass")),
    (CREDIT, f"{ASSIGN}|a list of 4 as advantages of trajectory|float array of shape [4]", credit(EACH.format("[0.5] * t.actions"))),
    (CREDIT, f"{ASSIGN}|with a float (0.5) in it", credit("return [[0.5 for t in g.trajectories] for g in groups]")),
    (CREDIT, f"{ASSIGN}|a float64 array of shape [1]|shape [4], one number per action", credit(EACH.format("np.ones(1)"))),
    (CREDIT, f"{ASSIGN}|a float64 array of shape [4, 1]", credit(EACH.format("np.ones((t.actions, 1))"))),
    (CREDIT, f"{ASSIGN}|a float64 array of shape []", credit(EACH.format("np.array(1.0)"))),
    (CREDIT, f"{ASSIGN}|a float32 tensor of shape [4]", credit(EACH.format("torch.ones(t.actions)"))),
    (CREDIT, f"{ASSIGN}|an int64 array of shape [4]", credit(EACH.format("np.ones(t.actions, int)"))),
    (CREDIT, f"{ASSIGN}|as returns of trajectory", credit(EACH.format("np.ones(t.actions), np.ones(1)"))),
    (CREDIT, f"{ASSIGN}|a list of 4 for 2 groups", credit("return [Credited(np.ones(t.actions)) for g in groups for t in g.trajectories]")),
    (CREDIT, f"{ASSIGN}|a list of 1 for 2 groups", credit(f"{SPREAD}[:1]")),
    (CREDIT, f"{ASSIGN}|returned a generator", credit("return (row for row in spread(groups, [g.rewards for g in groups]))")),
    (CREDIT, "Mine.assign raised AttributeError: 'Group' object has no|(p.py, line|fix", credit("return [g.size for g in groups]")),
    (CREDIT, "read-only|(p.py, line|fix", credit("groups[0].trajectories[0].contexts[0].logprobs[:] = 0.0")),
    (CREDIT, f"{ASSIGN}|it must return (credits, state)", credit(SPREAD, start="return {'seen': 0}")),
    (CREDIT, f"{ASSIGN}|a set as state", credit(f"{SPREAD}, {{1, 2}}", start="return {'seen': 0}")),
    ("{train} --credit p.py:mine", f"{ASSIGN}|a list of 4 as adv", then(credit(EACH.format("[0.5] * t.actions")), "\n\nmine = Clipped(Mine())\n")),
    (CREDIT, "`credit` is Mine, whose assign (p.py, line|too many", instead(credit(SPREAD), "(self, groups, signals)", "(self, groups)")),
    (CREDIT, "Mine (p.py, line|`needs` contains the class LogProbs", part("assign", SPREAD, fields="needs: ClassVar = (LogProbs,)")),
]

OBJECTIVES: list[Row] = [
    (TRUST, f"{LOSSES}|a float32 tensor of shape [16, 1]; it must|[16]", trust("return surrogate(log_ratio, advantages)[:, None], {}")),
    (TRUST, f"{LOSSES}|a float32 tensor of shape []", trust("return surrogate(log_ratio, advantages).mean(), {}")),
    (TRUST, f"{LOSSES}|without gradient|without detach", trust("return surrogate(log_ratio, advantages).detach(), {}")),
    (TRUST, f"{LOSSES}|(a float tensor of shape [16], a mapping", trust("return surrogate(log_ratio, advantages)")),
    (TRUST, f"{LOSSES}|None as metrics", trust("return surrogate(log_ratio, advantages), None")),
    (TRUST, f"{LOSSES}|as metric 'clip_share'|tally", trust("return surrogate(log_ratio, advantages), {'clip_share': 0.5}")),
    (TRUST, f"{LOSSES}|a float32 array of shape [16]", trust("return -advantages.numpy(), {}")),
    (TRUST, f"{LOSSES}|an int64 tensor", trust("return surrogate(log_ratio, advantages).long(), {}")),
    (TRUST, "Mine.losses raised AttributeError|(p.py, line", trust("return log_ratio.expp() * advantages, {}")),
    (TRUST, "Mine (p.py, line|lacks separable", trust(SURROGATE, fields="width: float = 0.2")),
    (TRUST, "`separable` is a method; it must be", then(trust(SURROGATE, fields="x: int = 1"), "\n    def separable(self): return False\n")),
    (TRUST, "declares separable = True, but|set separable = False", trust("return surrogate(log_ratio, advantages - advantages.mean()), {}")),
    (TRUST, "changed a tensor of the batch in place|make a new tensor", trust(f"advantages *= 2.0\n{SURROGATE}")),
    (TRUST, "Mine, whose losses (p.py, line|too many", instead(trust(SURROGATE), ", advantages, batch)", ", batch)")),
    (
        f"{TRUST} --objective.policy.ratio Probability",
        "Mine (p.py, line|supports only TokenRatio",
        trust(SURROGATE, fields="separable: ClassVar = True\nratios: ClassVar = (TokenRatio,)"),
    ),
    (RATIO, f"{LOG_RATIO}|a float32 tensor of shape []", ratio("return (logprobs - old).mean()")),
    (RATIO, f"{LOG_RATIO}|shape [16, 1]", ratio("return (logprobs - old)[:, None]")),
    (RATIO, f"{LOG_RATIO}|without gradient", ratio("return logprobs.detach() - old")),
    (RATIO, f"{LOG_RATIO}|returned None", ratio("logprobs - old")),
    (AVERAGE, "Mine.coefficients (p.py, line|a float (0.0625)|shape [16]", part("coefficients", "return 1.0 / batch.actions")),
    (AVERAGE, "Mine.coefficients (p.py, line|shape [16, 1]", part("coefficients", "return torch.full((batch.actions, 1), 0.1)")),
    (WEIGHT, "Mine.factors (p.py, line|shape []", part("factors", "return (old - batch.behaviour_logprobs).exp().mean()")),
    (WEIGHT, "Mine.factors (p.py, line|shape [1]", part("factors", "return old.exp()[:1]")),
    (TERM, f"{LOSS}|shape [16] as the loss|sum over actions", term("return -outputs[LogProb()] * batch.advantages, {}")),
    (TERM, f"{LOSS}|a loss without gradient", term("return -(outputs[LogProb()].detach() * batch.advantages).sum(), {}")),
    (TERM, f"{LOSS}|as the loss", term("return float(outputs[LogProb()].sum()), {}")),
    (TERM, f"{LOSS}|a mapping of metrics", term("return outputs[LogProb()].sum()")),
    (TERM, f"{LOSS}|shape [1] as the loss", term("return outputs[LogProb()].sum()[None], {}")),
    (TERM, f"{LOSS}|as metric 'mine'", term("return outputs[LogProb()].sum(), {'mine': 1.0}")),
    (f"{TERM} --objective.entropy EntropyBonus", "Mine.loss raised KeyError: EntropyOf()", term("return outputs[EntropyOf()].sum(), {}")),
    (TERM, "Mine (p.py, line|declares separable = True", term("return -outputs[LogProb()].mean(), {}")),
    (TERM, "the source 'polcy'; set the source to one of policy, expert", term(PLAIN, source="'polcy'")),
    (TERM, "`wants` contains the class LogProb", term(PLAIN, wants="(LogProb,)")),
    (TERM, "`wants` is a LogProb; it must be a tuple", term(PLAIN, wants="LogProb()")),
]

ROLLOUTS: list[Row] = [
    (ROLLOUT, f"{RUN}|returned None; it must return a list of Group", rollout("pass")),
    (ROLLOUT, f"{RUN}|two groups with the key", rollout("return groups + groups")),
    (ROLLOUT, f"{RUN}|twice; it must", rollout("return [g.but(trajectories=g.trajectories * 2) for g in groups]")),
    (ROLLOUT, f"{RUN}|with a Trajectory in it", rollout("return [t for g in groups for t in g.trajectories]")),
    (ROLLOUT, f"{RUN}|a list of 1 as trajectories", rollout("return [g.but(trajectories=list(g.trajectories)) for g in groups]")),
    (ROLLOUT, f"{RUN}|a tuple of 0 as traj", rollout("return [g.but(trajectories=()) for g in groups]")),
    (ROLLOUT, f"{RUN}|no groups for 2 requests", rollout("return []")),
    (ROLLOUT, f"{RUN}|without a reward|await world.judge(groups)", rollout(WITH.format("reward=None"))),
    (ROLLOUT, f"{RUN}|1 logprobs for 4 actions", rollout(WITH.format("contexts=tuple(replace(c, logprobs=c.logprobs[:1]) for c in t.contexts)"))),
    (ROLLOUT, f'{RUN}|the source "polcy"; it must be', rollout(WITH.format("source='polcy'"))),
    (ROLLOUT, f'{RUN}|of player "polcy"', rollout(WITH.format("player='polcy'"))),
    (ROLLOUT, f"{RUN}|a str ('1') as its weight", rollout(WITH.format("weight='1'"))),
    (ROLLOUT, f"{RUN}|a coroutine that no code awaits", part("run", "return SingleTurn().run(requests, world)")),
    (ROLLOUT, "`rollout` is Mine, whose run (p.py, line|is not a coroutine; write", instead(part("run", "return []"), "    async def run", "    def run")),
    (ROLLOUT, "whose run (p.py, line|yields its values one by one", rollout("for group in groups: yield group")),
    (ROLLOUT, "Mine.run raised IndexError|(p.py, line", rollout("return groups[len(groups)]")),
    (ROLLOUT, f"{RUN}|(groups, state)", part("run", "return await SingleTurn().run(requests, world)", start="return {}")),
    (JUDGED, f"{SCORE}|with a float (1.0) in it", reward("return [[1.0 for t in g.trajectories] for g in groups]")),
    (JUDGED, f"{SCORE}|a list of 1 for 2 groups", reward("return found[:1]")),
    (JUDGED, f"{SCORE}|a str ('1.0') as reward", reward(JUDGEMENT.format("'1.0'"))),
    (JUDGED, f"{SCORE}|None as reward", reward(JUDGEMENT.format("None"))),
    (JUDGED, f"{SCORE}|a float32 tensor of shape [] as reward", reward(JUDGEMENT.format("torch.tensor(1.0)"))),
    (JUDGED, f"{SCORE}|a list of 1 as components", reward(JUDGEMENT.format("1.0, ['mine']"))),
    (JUDGED, f"{SCORE}|a step at action 4 of context 0", reward(JUDGEMENT.format("1.0, steps=((0, t.actions, 'mine', 1.0),)"))),
    (JUDGED, "Mine.score raised AttributeError|(p.py, line", reward("return found.scores")),
    ("{train} --reward p.py:Mine", "p.py:Mine is a part, not a reward function|derive", reward("return found")),
]

DATA_PARTS: list[Row] = [
    (CURRICULUM, f"{CHOOSE}|with a Problem in it", curriculum("return problems")),
    (CURRICULUM, f"{CHOOSE}|returned None", curriculum("pass")),
    (CURRICULUM, f"{CHOOSE}|no requests for 2 problems", curriculum("return []")),
    (CURRICULUM, f"{CHOOSE}|count 0", curriculum("return [Request(p, count=0) for p in problems]")),
    (CURRICULUM, "unknown player|Mine.choose (p.py, line|add the player to players", curriculum("return [Request(p, player='polcy') for p in problems]")),
    (CURRICULUM, f"{CHOOSE}|a Request for a str", curriculum("return [Request(p.id) for p in problems]")),
    (CURRICULUM, f"{CHOOSE}|(requests, state)", curriculum(ASKED, start="return {'drawn': 0}")),
    (CURRICULUM, f"{CHOOSE}|the key 1;", curriculum(f"{ASKED}, {{1: 'drawn'}}", start="return {'drawn': 0}")),
    (CURRICULUM, "Mine.start (p.py, line|an object as state", curriculum(f"{ASKED}, state", start="return object()")),
    (CURRICULUM, "has no more requests|a smaller --steps", curriculum("return [], state", start="return {'drawn': 0}")),
    (
        CURRICULUM,
        "Mine.learn (p.py, line|returned None; it must return the state",
        then(curriculum(f"{ASKED}, state", start="return {'drawn': 0}"), "\n" + method("learn", "state['drawn'] += 1")),
    ),
    (SELECTION, f"{KEEP}|two lists of Group: (kept, dropped)", part("keep", "return list(groups)")),
    (SELECTION, f"{KEEP}|twice among the kept", part("keep", "return [*groups, *groups], []")),
    (SELECTION, f"{KEEP}|as kept and as dropped", part("keep", "return list(groups), list(groups)")),
    (SELECTION, f"{KEEP}|with an int (0) in it", part("keep", "return list(range(len(groups))), []")),
    (SELECTION, "Mine.keep raised ValueError|(p.py, line", part("keep", "return [g for g in groups if g.rewards > 0], []")),
    (SELECTION, f"{KEEP}|(kept, dropped, state)", part("keep", "return list(groups), []", start="return {}")),
]

OTHERS: list[Row] = [
    (UPDATE, "Mine.apply (p.py, line|returned None", part("apply", "Minibatches().apply(players, batches, step, key)")),
    (UPDATE, "Mine.apply (p.py, line|under 'loss'|float(...)", part("apply", "return {'loss': torch.tensor(1.0)}")),
    (UPDATE, "Mine.apply raised KeyError: 'polcy' (p.py", part("apply", "return players['polcy'].move(step)")),
    (SCHEDULE, "Mine.at (p.py, line|returned None|it must return (recipe, events)", part("at", "recipe.but(update__epochs=2)")),
    (SCHEDULE, 'unknown field "epoch"|asked for by Mine.at: p.py', part("at", "return recipe.but(update__epoch=2)")),
    (SCHEDULE, "Mine.at (p.py, line|returned a recipe with an error: update cannot be Clip", part("at", "return recipe.but(update=Clip())")),
    (STUDY, "Mine.measure (p.py, line|returned None", part("measure", "pass")),
    (STUDY, "Mine.measure (p.py, line|a str ('0.5') under", part("measure", "return {'held_out/accuracy': '0.5'}")),
    (STUDY, "Mine.measure raised AttributeError|p.py", part("measure", "return {'held_out/accuracy': run.accuracy}")),
    (OPTIMIZER, "Mine.build (p.py, line|returned None", part("build", "torch.optim.SGD(parameters, lr=0.1)", base="(AdamW)")),
    (OPTIMIZER, "Mine.build (p.py, line|of other parameters", part("build", "return torch.optim.SGD(list(parameters)[:1], lr=0.1)", base="(AdamW)")),
    (OPTIMIZER, "Mine.build (p.py, line|the class SGD", part("build", "return torch.optim.SGD", base="(AdamW)")),
    (OPTIMIZER, "Mine (p.py, line|lacks lr", part("build", "return torch.optim.SGD(parameters, lr=0.1)")),
]

RECIPES: list[Row] = [
    (MINE, "`credit` is the class Mine (p.py, line|itself; give", then(credit(SPREAD), '\n\nmine = grpo.derive("mine", "", credit=Mine)\n')),
    (MINE, "is the class Clip (trust.py|give an instance", {"p.py": HEAD + 'mine = grpo.derive("mine", "", objective__policy__trust=Clip)\n'}),
    (MINE, "credit cannot be rule (p.py, line", {"p.py": HEAD + f'def rule(groups, signals): {SPREAD}\n\n\nmine = grpo.derive("mine", "", credit=rule)\n'}),
    (MINE, 'p.py:mine has the key "dapo"|another recipe', {"p.py": HEAD + 'mine = grpo.derive("dapo", "")\n'}),
    (MINE, 'p.py:mine has the key "grpo"|my_grpo', {"p.py": HEAD + 'mine = grpo.derive("grpo", "mine")\n'}),
    (MINE, 'the key "mine", and other in the same file has', {"p.py": HEAD + 'other = grpo.derive("mine", "one")\nmine = grpo.derive("mine", "two")\n'}),
    (
        "{train} --objective.policy.trust p.py:Unclipped",
        "Unclipped (p.py, line|built-in part gradus.objectives.trust.Unclipped; rename",
        instead(trust(SURROGATE), "class Mine", "class Unclipped"),
    ),
    (CREDIT, "Mine (p.py, line|can change during the run|frozen=True", instead(credit(SPREAD), "@dataclass(frozen=True)", "@dataclass")),
    (CREDIT, "Mine (p.py, line|is not a dataclass", instead(credit(SPREAD), "@dataclass(frozen=True)\n", "")),
    ("{train} --credit ProbeBaseline", "needs probes|--rollout WithGreedyBaseline"),
    ("{train} --credit AnchorStates", 'for tasks with an environment, but task "problems" has no'),
    ("{train} --objective.policy.ratio Probability", "`objective.policy.trust` is Clip|does not support the ratio Probability"),
    ("{train} --objective.policy.trust Shaped", "Shaped, which supports only Probability"),
    (
        "{train} --objective.policy.weight TruncatedImportance --objective.policy.ratio.against behaviour",
        "supports only a ratio with against='old', but TokenRatio has against='behaviour'",
    ),
    ("{train} --objective.policy.source expert --objective.policy.ratio.against behaviour", "the source `expert` are not sampled"),
    ("{train} --rollout BehaviourPolicy", 'unknown player "generator"|rollout.player of BehaviourPolicy names it; add it'),
]

OWN_PARTS: list[Row] = [*CREDITS, *OBJECTIVES, *ROLLOUTS, *DATA_PARTS, *OTHERS, *RECIPES]

RIGHT: list[Row] = [
    (CREDIT, "", credit(SPREAD)),
    (CREDIT, "", credit(f"{SPREAD}, state", start="return {'seen': np.zeros(2), 'names': ['a'], 'none': None}")),
    (CREDIT, "", credit(EACH.format("np.ones(t.actions, np.float32), np.zeros(t.actions)"))),
    (CREDIT, "", instead(credit(SPREAD), "    def assign", "    async def assign")),
    (TRUST, "", trust("return surrogate(log_ratio, advantages), {'mine': tally(advantages)}")),
    (TRUST, "", instead(trust("return surrogate(log_ratio, advantages - advantages.mean()), {}"), "= True", "= False")),
    (RATIO, "", ratio("return logprobs - old")),
    (AVERAGE, "", part("coefficients", "return torch.full_like(batch.weight, 0.1)")),
    (WEIGHT, "", part("factors", "return (old - batch.behaviour_logprobs).exp()")),
    (TERM, "", term(PLAIN)),
    (ROLLOUT, "", rollout("return groups")),
    (ROLLOUT, "", part("run", "return await SingleTurn().run(requests, world), state", start="return {}")),
    (JUDGED, "", reward("return found")),
    (JUDGED, "", reward(JUDGEMENT.format("1, {'mine': 1}, ((0, 0, 'mine', 1.0),)"))),
    (CURRICULUM, "", curriculum(ASKED)),
    (CURRICULUM, "", curriculum(f"{ASKED}, {{'drawn': state['drawn'] + 1}}", start="return {'drawn': 0}")),
    (SELECTION, "", part("keep", "return list(groups[:1]), list(groups[1:])")),
    (UPDATE, "", part("apply", "return Minibatches().apply(players, batches, step, key)")),
    (SCHEDULE, "", part("at", "return recipe.but(update__epochs=2)")),
    (STUDY, "", part("measure", "return {'held_out/accuracy': 0.5, 'none': None}")),
    (OPTIMIZER, "", part("build", "return torch.optim.SGD(parameters, lr=0.1)", base="(AdamW)")),
    (MINE, "", {"p.py": HEAD + "mine = grpo.but(credit__scale='none')\n"}),
    (MINE, "", {"p.py": HEAD + "other = grpo.derive('mine', 'one')\nmine = other.but(credit__scale='none')\n"}),
]
"""Sound parts beside them, one a seam at least: none of these is refused."""
