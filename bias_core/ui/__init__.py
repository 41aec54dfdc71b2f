"""Shared parts of all tabs, and tabs without a study.

``visitor``, ``messages``, ``links``, ``model_menu``, ``templates``, ``static``; ``study`` is the tab of a study;
``runs``, ``calibration`` and ``methods`` are tabs of their own.
"""
