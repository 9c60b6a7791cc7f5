"""What speaks against a log Z: each check looks at the rows of a run."""
