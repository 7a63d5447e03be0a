"""Make rows for the dataset."""

ROWS = None  # unfinished: env_runtime.rows writes this file
