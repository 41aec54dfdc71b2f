"""One file per study: prompts -> images -> embeddings -> measure -> report."""
