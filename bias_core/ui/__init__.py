"""What all tabs share, and tabs of their own.

``visitor``, ``messages``, ``links``, ``model_menu``, ``templates``, ``static``; ``study`` is the tab of a study;
``runs``, ``calibration`` and ``methods`` are tabs of their own.
"""
