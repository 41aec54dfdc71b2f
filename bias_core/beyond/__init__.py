"""Optional parts. Each folder can be deleted: nothing outside imports it, and what it adds is found by scanning."""
