"""Proving grounds. Each file defines one small task with one difficulty; `gradus grounds` lists all grounds."""
