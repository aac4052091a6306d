"""Gradus trains language models and their relatives by reinforcement learning, one step at a time."""

__version__ = "0.1.0"
