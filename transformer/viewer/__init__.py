"""Show the attention, the probabilities and the beam search of a translation.

inspection.inspect_line(translator, "Der Hund schläft.")    # all of them, as numbers
"""
