"""OASIS: stereotype scores (``nationalities``), StOP (``stop``, ``prompt_search``) and SPI (``spi``)."""
