"""The one call that chooses a method, and what checks it."""
