"""T2IAT: association tests."""
