"""People's labels.

``make_task`` makes a task from a run, ``task_owner`` has its owner's actions, ``rating`` the raters', ``api`` the
raters' HTTP door. ``label_store`` is the database; ``results`` reads, counts and exports them, ``judge`` has a
model answer too, ``report`` makes a report of it all. The Label tab: ``tab``, ``tab_make``, ``tab_demonstration``.
"""
