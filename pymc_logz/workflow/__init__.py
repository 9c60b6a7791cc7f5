"""What follows an evidence: how it depends on a prior."""
