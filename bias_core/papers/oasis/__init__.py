"""OASIS: stereotype scores, StOP and SPI.

Scores: ``nationalities`` with ``cells``. StOP: ``stop`` (study and options) with ``prompt_search`` (the search itself).
SPI: ``spi`` with ``foretelling``. Sentences: ``headline``. The tab: ``tab``.
"""
