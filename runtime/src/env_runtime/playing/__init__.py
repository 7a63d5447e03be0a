"""The page of play.py, on which a person plays rows."""
