"""Advantage estimators. The maths are pure NumPy functions over rewards; the parts turn groups into per-action advantages."""
