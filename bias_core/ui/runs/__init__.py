"""The Runs tab, and the comparison of runs."""
