"""Advantage estimators. The maths are pure NumPy functions over rewards; the parts turn groups into advantages for every action."""
