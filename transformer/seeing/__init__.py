"""What a translation was made of: attention, probabilities, the search; and its page.

sight.see(translator, "Der Hund schläft.")    # all of it, as numbers
"""
