"""T2IAT: association tests (``study_tests``), occupations and people's choices (``study_occupations``)."""
