"""Files on disk, and the import and export of pictures.

``images``, ``manifests``, ``readings`` (what models read in pictures), ``uploads``, ``files``. Import: ``imports``,
``picture_metadata`` with ``comfy_graph`` and ``drawing_facts``, ``copies``, ``tables``. Export: ``export``.
"""
