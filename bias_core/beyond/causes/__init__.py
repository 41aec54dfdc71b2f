"""What decides an attribute: texts and weights are exchanged on the same seeds."""
