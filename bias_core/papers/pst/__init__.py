"""PST: the paired stereotype test."""
