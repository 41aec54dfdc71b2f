"""The calibration world, whose truth is known.

``grammar`` reads a prompt, ``wordings`` those of other languages, ``planted`` has the rates, ``scene`` what a picture
shows, ``render`` paints it, ``models`` draws and reads it, ``truth`` records it; ``captions`` and ``reader_errors`` are
of its classifiers, ``drawn_rates`` of its diffusion model.
"""
