"""The page put together and served.

``build`` puts it together. Its doors (``doors``, ``request_limits``, ``heads``, ``uploads``), faults of Gradio that
are worked around (``gradio_faults``), what an open page keeps (``page_state``, ``first_page``), what is
ready before the first visitor (``warm_up``), the API (``api``); ``cli`` is the command line.
"""
