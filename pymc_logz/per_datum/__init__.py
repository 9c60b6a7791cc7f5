"""Many data, or data that change: batches of data rows, tracking, and paths between models."""
