"""The options of `gradus simulate`. Imports no heavy module."""

from __future__ import annotations

from argparse import ArgumentParser


def simulate_options(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's key (gradus papers), or file.py:name; its models and its number of updates set the costs")
    add = parser.add_argument_group("Cluster").add_argument
    add("--gpus", type=int, default=64, metavar="N", help="number of GPUs; default: 64")
    add("--model", default="8B", metavar="SIZE", help="number of parameters of the model, such as 70B; default: 8B")
    add("--gpu", default="H100", metavar="NAME", help="A100, L40S, H20, H100, H200, B200 or MI300X; default: H100")
    add("--replica", type=int, metavar="N", help="GPUs of a replica that samples; default: the smallest power of two with enough memory")
    add = parser.add_argument_group("Choices, with commas between them").add_argument
    add("--prompts", metavar="N,N", help="problems per step; default: as in the recipe's profile paper")
    add("--staleness", default="0,1,2", metavar="N,N", help="steps of Ahead and Streaming; default: 0,1,2")
    add("--share", default="0.25,0.375,0.5,0.625,0.75", metavar="X,X", help="shares of the GPUs that sample; default: 0.25,0.375,0.5,0.625,0.75")
    add = parser.add_argument_group("Answers").add_argument
    add("--from", dest="source", metavar="DIR", help="a run whose answer lengths the simulation uses again; default: none, log-normal lengths")
    add("--group", type=int, metavar="N", help="answers per problem; default: as in the recipe's profile paper")
    add("--length", type=float, metavar="X", help="mean tokens of an answer; default: 1000")
    add("--spread", type=float, metavar="X", help="standard deviation of the logarithm of a length; default: 0.7")
    add("--max-tokens", type=int, metavar="N", help="largest number of tokens of an answer; default: no limit")
    add("--prompt", type=int, metavar="N", help="tokens of a prompt; default: 200")
    add("--delay", type=float, metavar="S", help="mean seconds from the last token of a group to its rewards; default: 0")
    add = parser.add_argument_group("Measured rates, in place of estimates").add_argument
    add("--decode", metavar="B=R,B=R", help="tokens per second of a replica, by its number of sequences, as in 8=900,64=5200; default: an estimate")
    add("--prefill", type=float, metavar="R", help="prompt tokens per second of a replica; default: an estimate")
    add("--update", type=float, metavar="R", help="sampled tokens per second for each training GPU; default: an estimate")
    add("--publish", type=float, metavar="S", help="seconds that a replica needs to load new weights; default: an estimate")
    add("--sequences", type=int, metavar="N", help="largest number of sequences in the memory of a replica; default: an estimate")
    add = parser.add_argument_group("Further options").add_argument
    add("--steps", type=int, default=12, metavar="N", help="simulated steps; the first third does not count; default: 12")
    add("--seed", type=int, default=0, metavar="N", help="seed of the lengths and delays; default: 0")
    add("--all", action="store_true", help="show all configurations")
    add("--json", action="store_true", help="print JSON")
