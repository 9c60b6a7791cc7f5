"""log Z from a posterior that already exists."""
