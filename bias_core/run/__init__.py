"""Runs of studies, from the plan to the history.

``study_run`` (class Run: a request, its rows and pictures; leaves out blocked ones), ``plan`` (settles what is asked,
lays it out), ``run``, ``run_queue``, ``image_rows``, ``limits``, ``reproduction`` (a paper's protocol). Measuring:
``attribute_scores`` (P, its interval, Ψ), ``suggestions``. Afterwards: ``history``, ``next_steps``, ``programs`` (the
JSON of tools and commands).
"""
