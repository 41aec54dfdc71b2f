"""The tab that every study builds on.

``study_tab``, its ``form``, its ``result_page`` with ``parts``, ``pictures`` and ``comparison``, and ``shown_report``.
"""
