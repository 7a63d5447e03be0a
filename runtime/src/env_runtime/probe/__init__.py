"""A player that learns the shortcuts of rows from their solutions, without understanding."""
