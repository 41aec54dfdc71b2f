"""OASIS: stereotype scores, StOP and SPI.

Scores: ``study_nationalities`` with ``cells``. StOP: ``study_stop``, with the search itself in ``prompt_search``. SPI:
``study_spi``. ``report`` makes headlines and sentences on steps. The tab: ``tab``.
"""
