"""Proving grounds: one small world with one difficulty per file; `gradus grounds` lists them."""
