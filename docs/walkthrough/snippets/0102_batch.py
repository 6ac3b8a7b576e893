import tiny

from transformer.text.batches import make_batch

tiny.start()
vocabulary = tiny.vocabulary()
pairs = [("Das Kind schläft.", "The child sleeps."), (tiny.SENTENCE, tiny.REFERENCE)]
sources = [vocabulary.encode(source) for source, _ in pairs]
targets = [vocabulary.encode(target) for _, target in pairs]
batch = make_batch(sources, targets, number=0)
for name, ids in zip(batch._fields, batch[:3]):
    print(f"{name} {ids.shape}: {' '.join(vocabulary.pieces(ids[0]))}")
print("the ids that are tokens (full) and padding (blank):")
tiny.picture(batch.source > 0, ["source 0", "source 1"])
tiny.picture(batch.target_in > 0, ["target 0", "target 1"])
print("step  input      label")
for t in range(5):
    given, wanted = (vocabulary.pieces(ids[0, t : t + 1])[0] for ids in batch[1:3])
    print(f"{t:4}  {given:10} {wanted}")
