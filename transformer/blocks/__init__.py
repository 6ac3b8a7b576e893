"""The parts of `transformer.modules`: layers, positions, masks, attention."""
