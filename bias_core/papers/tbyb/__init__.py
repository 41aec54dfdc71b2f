"""TBYB: distribution bias, hallucination and misses, by objects."""
