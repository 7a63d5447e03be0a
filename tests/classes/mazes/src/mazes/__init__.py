from sortedcontainers import SortedSet


def corridor(length):
    return SortedSet(range(length))
