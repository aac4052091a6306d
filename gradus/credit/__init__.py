"""Advantage estimators. Pure NumPy functions compute the formulas from rewards; the parts turn groups into one advantage per action."""
