"""How competent the built-in model is before any reinforcement learning: python -m benchmarks.tiny_table [FOLDER]."""
