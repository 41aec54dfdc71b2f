"""Optional parts, listed in ``study.design.OPTIONAL``. Each folder can be deleted: nothing outside imports it."""
