"""The parts of `transformer.modules`: primitives, positions, attention."""
