"""The glossary of the page is made from the cards of the measures."""

import re

from bias_core.metrics.cards import METRICS, glossary

SYMBOLS = ("P", "P*", "Ψ", "STS", "SPI", "MCAS", "δ", "δ′", "α", "α′", "κ", "H_J", "M_G", "B_D", "WALS")


def test_every_symbol_has_one_meaning_and_a_card():
    entries = glossary()
    symbols = [entry.symbol for entry in entries]
    assert len(symbols) == len(set(symbols))
    assert set(SYMBOLS) <= set(symbols)
    for entry in entries:
        assert entry.measure in METRICS
        assert entry.says.endswith(".")
        assert entry.words == entry.words.strip()
        assert not set(entry.words.split()) & set(symbols), "words explain without symbols"


def test_a_symbol_in_the_name_of_a_measure_is_in_the_glossary():
    """What is written behind a name as a symbol can be asked about."""
    symbols = {entry.symbol for entry in glossary()}
    unknown = {
        word
        for card in METRICS.values()
        for word in card.name.replace(",", " ").split()
        if re.fullmatch(r"[A-Z]_[A-Z]|[ΨδακαP][′*]?|[A-Z]{3,4}", word) and word not in symbols
    }
    assert unknown <= {"II", "TT"}
