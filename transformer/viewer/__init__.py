"""Show the attention, the probabilities and the beam search of a translation.

sight.see(translator, "Der Hund schläft.")    # all of them, as numbers
"""
