"""Help with porting code written for the TF1 tutorials to these blocks."""
