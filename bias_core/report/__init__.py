"""Claims, sentences, tables and figures of results, and reports as documents and files.

``claims`` (what is clear, in one place), ``headlines``, ``report_text``, ``arm_comparison``, ``corrected`` (by
people's answers), ``published`` (numbers of papers and runs), ``stop_rules``, ``picture_facts``, ``blocked_pictures``
(refused or blanked). ``figures``, ``documents`` (HTML, Markdown, JSON), ``export`` (files), ``commands``, ``saved``,
``shipped`` (the validity report).
"""
