"""Measure bias in text-to-image models, with every number's uncertainty.

Importing this package loads no model library: torch, diffusers, transformers and open_clip are
imported by the adapters on first use.
"""

__version__ = "0.1.0"
