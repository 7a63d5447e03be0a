"""Rows of corridors."""

import sys

from env_runtime import rows


def tasks(rng):
    size = rows.parameters()["size"]
    for start in rng.sample(range(1, size), size - 1):
        yield rows.Example("Walk to the last cell.", {"start": start})


if __name__ == "__main__":
    sys.exit(rows.main(tasks, 3, __doc__))
