import tiny

tiny.start()
vocabulary = tiny.vocabulary()
word = "müde"
print(word, "is", len(word), "characters,", len(word.encode("utf-8")), "bytes:")
print("bytes      " + " ".join(f"{byte:02x}" for byte in word.encode("utf-8")))
cells = [f"{x:{3 * len(x.encode('utf-8'))}}" for x in word]
print("characters " + "".join(cells).rstrip())
ids = vocabulary.encode(tiny.SENTENCE)
print(len(tiny.SENTENCE), "characters ->", len(ids), "pieces -> ids:")
print(" ".join(f"{piece:>5}" for piece in vocabulary.pieces(ids)))
print(" ".join(f"{number:5}" for number in ids))
print("special:", *vocabulary.pieces([0, 1, 2, 3]))
print("back:", vocabulary.decode(ids), vocabulary.decode(ids) == tiny.SENTENCE)
