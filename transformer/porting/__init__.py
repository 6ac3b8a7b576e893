"""Help to port code written for the TF1 tutorials to these blocks."""
