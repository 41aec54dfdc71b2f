"""Studies: their parts, runs and reports.

Settings and results: ``study`` (the class that studies override), ``design``, ``types``,
``study_services`` (models and stores, handed in). Running: ``plan`` (settles what is asked, lays it out), ``run``,
``run_queue``, ``image_rows``, ``study_data`` (finished pictures; leaves out blanked ones), ``limits``, ``classifiers``.
Numbers: ``attributes`` (sets), ``suggestions``, ``attribute_scores`` (P, its interval, Ψ), ``blanked_pictures`` (their
share), ``arm_comparison``. People: ``answers``, ``answer_files``, ``answer_fit`` (which ones count), ``picture_names``,
``label_tasks``, ``classifier_answers``, ``corrected``.
Reports: ``headlines``, ``report_text``, ``figures``, ``documents`` (HTML, Markdown, JSON), ``export`` (files),
``programs`` (the JSON of tools and commands), ``reproduction`` (settings, protocol, command), ``next_steps``,
``saved``, ``history``.
"""
