"""Studies: their class, settings and designs.

``study`` (the class that studies override), ``design``, ``types`` (settings, arms, results), ``attributes`` (sets),
``classifiers``. People: ``label_tasks``, ``classifier_answers``,
``answers``, ``answer_files``, ``answer_fit`` (which ones count), ``picture_names``, ``judge_answers``.
"""
