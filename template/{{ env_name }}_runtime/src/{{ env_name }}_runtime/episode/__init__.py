"""Tools, tasks and grades out of the class.

The class is the one declaration of an environment. This room reads its tools off its
methods, plays episodes of it and grades them. It knows no server: the standard library
and pydantic are enough.
"""
