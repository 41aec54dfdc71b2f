"""People's labels.

Tasks: ``run_task``, ``sources``, ``groups``, ``demonstration``. Raters: ``api``, ``rating``. Answers:
``label_store``, ``label_copy``, ``collected``, ``answers``, ``scale_answers``, ``judge``, ``report``. Owners:
``task_owner``. The tab: ``tab`` and ``tab_*``.
"""
