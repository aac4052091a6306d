"""Advantage estimators. NumPy functions without side effects compute the formulas from rewards. The parts compute one advantage per action for given
groups.
"""
