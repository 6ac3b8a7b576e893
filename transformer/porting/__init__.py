"""Code written for the TF1 tutorials, read and told how to run on these blocks."""
