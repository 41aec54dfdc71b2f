"""PST: the paired stereotype test.

``scores`` has what every test shares, its headline too. The tests: ``pairs`` (the paper's), ``swapped``, ``identities``
(of one's own). ``labelling`` says how people look, ``extension`` lets ``beyond`` add scores; the tab is ``tab``.
"""
