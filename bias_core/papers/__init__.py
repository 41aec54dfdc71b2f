"""The studies of five papers, one folder each; they do not know each other."""
