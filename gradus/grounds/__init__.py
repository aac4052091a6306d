"""Proving grounds. Each file defines one small world with one difficulty; `gradus grounds` lists all worlds."""
