"""Classes over a dataset, as the command writes them: one of these, with its own names."""
