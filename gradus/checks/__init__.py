"""`gradus check` tests before the first step whether the recipe, data, model, template, verifier, reward and machine are ready for a run.

Every check is a function that yields findings. After a fault, all checks that are still possible are made, so a fault does not hide other faults.
"""
