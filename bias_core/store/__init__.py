"""Files on disk, and the import and export of pictures.

``images``, ``manifests``, ``readings`` (embeddings and answers), ``uploads``, ``files``. Import: ``imports``,
``reader``, ``found_pictures``, ``picture_files``, ``picture_metadata`` with ``comfy_graph`` and ``drawing_facts``,
``copies``, ``tables``, ``published_runs`` (claims of other people's runs). Export: ``export``.
"""
