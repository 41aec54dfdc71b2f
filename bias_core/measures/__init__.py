"""Measures and intervals: arrays in, estimates out.

``cards`` lists every measure. T2IAT: ``association``. PST: ``paired_stereotype``. TBYB: ``object_bias``, with
``objects`` and ``wordnet`` (words of captions), ``object_distribution`` and ``object_comparison``. Internal bias:
``composite_association``, ``relative_association``. OASIS: ``stereotype``, ``alignment``, ``propagation``,
``exchange``. People: ``agreement``. Statistics: ``arrays`` (checks), ``intervals``, ``effects``, ``sequential``
(numbers that are watched), ``two_phase`` (people correct a classifier), ``resampling``, ``parity``.
"""
