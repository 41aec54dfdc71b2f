"""The tabs of studies: Explore and the page of the papers are layouts of one form.

``study_tab``, its ``form``, its ``result_page`` with ``parts``, ``pictures`` and ``comparison``, and ``shown_report``.
"""
