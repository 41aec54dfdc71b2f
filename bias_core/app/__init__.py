"""The page put together and served.

``build`` puts it together, ``serve`` serves it. Its doors (``doors``, ``request_limits``, ``uploads``), its answers
(``answers``), all overrides of Gradio (``gradio_faults``), the API (``api``); ``cli`` is the command line.
"""
