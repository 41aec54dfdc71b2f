"""Builds and serves the page, the API and the command line.

``build`` builds the page and ``serve`` serves it. Requests pass ``doors``, ``request_limits`` and ``uploads``;
``answers`` sends responses; ``gradio_faults`` holds all overrides of Gradio; ``api`` is the API, ``cli`` the command
line.
"""
