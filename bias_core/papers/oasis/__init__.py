"""OASIS: stereotype scores, StOP and SPI.

Scores: ``study_nationalities`` with ``cells``. StOP: ``study_stop``, with the search itself in ``prompt_search``. SPI:
``study_spi``. ``report`` makes the headlines and what is said of steps. The tab: ``tab``.
"""
