"""Show attention, probabilities and the beam search of a translation.

sight.see(translator, "Der Hund schläft.")    # all of it, as numbers
"""
