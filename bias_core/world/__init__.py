"""The calibration world: a small drawn world with known truth.

``grammar`` parses prompts, ``wordings`` those in other languages, ``planted`` has the rates, ``scene`` describes and
paints pictures, and ``models`` draws and reads them. ``measured_models`` has measurements of the models that come with
this world: the errors of its classifier, and the rates that its diffusion model draws.
"""
