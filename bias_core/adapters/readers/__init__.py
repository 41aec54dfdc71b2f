"""Readers of pictures and of texts, by library; each loads nothing before its first use."""
