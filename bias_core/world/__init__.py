"""The calibration world, whose truth is known.

``grammar`` reads a prompt, ``wordings`` those of other languages, ``planted`` has the rates, ``scene`` what a picture
shows and how it is painted; ``models`` draws and reads it. ``measured_models`` has what was measured of the models that
come with this world: the errors of its classifier, and the rates that its diffusion model draws.
"""
