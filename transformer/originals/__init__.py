"""The original systems: their variable names, their checkpoints, recorded numbers."""
