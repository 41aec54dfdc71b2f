"""What a study is and how it runs.

``study`` (the class that studies override), ``design``, ``types`` and ``setting_fields`` (settings and results),
``plan`` (settles what is asked, lays it out), ``run``, ``run_queue`` (where runs wait for their turn), ``data``
(pictures while they are measured), ``rows``, ``readers``, ``limits``, ``arms`` with ``arm_results`` and
``arm_statistics``, ``attributes`` with ``attribute_scores``, ``rewriting`` (of prompts), ``drawn`` (what generators
say), ``services`` (what is handed in). People: ``answers``, ``label_tasks``, ``labels``, ``run_readings``,
``corrected``. Suggested attributes: ``suggestions``, ``phrases``. Reports: ``report_text``, ``figures``, ``documents``,
``saved``, ``history``, ``export``, ``evaluation_records``, ``checklist``, ``next_steps``.
"""
