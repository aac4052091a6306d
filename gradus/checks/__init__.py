"""`gradus check`: whether recipe, data, model, template, verifier, reward and machine are fit for a run, before its first step.

Every check is a function that yields findings. One thing wrong does not hide another: what still can be looked at is.
"""
