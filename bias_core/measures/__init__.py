"""Measures and intervals: arrays in, estimates out.

``cards`` lists every measure. T2IAT: ``association``. PST: ``paired_stereotype``. TBYB: ``object_bias``, with
``objects`` and ``wordnet`` (words of captions), ``object_distribution`` and ``object_comparison``. Internal bias:
``composite_association``, ``relative_association``. OASIS: ``stereotype`` (with what a mitigation leaves, and blocked
pictures), ``alignment``, ``propagation``, ``exchange``, ``clustering``. Several sets or attributes:
``paired_prevalence``, ``intersections``. People: ``agreement``, ``two_phase`` (people correct a classifier).
Statistics: ``arrays`` (checks), ``intervals``, ``permutation`` (tests), ``effects``, ``sequential`` (shares: of a
fixed number, or watched).
Files import ``scipy`` and name ``scipy.stats`` where they use it: it takes half a second to load, on first use.
"""
