"""Tools, tasks and grades, derived from the class.

The class is the only declaration of an environment. This package reads the tools from its
methods, plays its episodes and grades them. It does not know any server, and needs only
the standard library and pydantic.
"""
