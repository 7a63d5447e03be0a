"""Models that a class asks beside the policy: a judge, a simulated user.

A class names them in its constructor, after the task: `def __init__(self, task, judge)`.
"""
