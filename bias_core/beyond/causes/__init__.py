"""Causes of an attribute: texts and weights are exchanged on the same seeds."""
