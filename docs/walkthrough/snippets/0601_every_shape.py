# tolerance: 0.01
import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.text.batches import make_batch
from transformer.training import cross_entropy

tiny.start()
vocabulary = tiny.vocabulary()
hp = HParams(num_blocks=2, d_model=16, d_ff=64, num_heads=2)
hp = HParams(**{**vars(hp), "source_vocab_size": 500, "target_vocab_size": 500})
batch = make_batch(
    [vocabulary.encode(tiny.SENTENCE)], [vocabulary.encode(tiny.REFERENCE)], 0
)
source, target_in, target_out = (tf.constant(ids) for ids in batch[:3])
model = Transformer(hp)
weights = {}
positions = tf.range(tf.shape(source)[1], dtype=tf.int64)
embedded = model.embed(tf.cast(source, tf.int64), "encoder", positions)
memory = model.encode(source, weights=weights)
logits = model.decode(target_in, memory, weights=weights)
loss = cross_entropy(logits, target_out, epsilon=0.1)
stops = {"source": source, "target_in": target_in, "target_out": target_out}
stops["embedding + position"] = embedded
stops["memory.mask"] = memory.mask
stops.update({name.replace("/block_", " "): each for name, each in weights.items()})
stops["memory.states"] = memory.states
stops["logits"] = logits
for name, value in tiny.run(stops).items():
    shape = " x ".join(map(str, value.shape))
    first = " ".join(f"{x:.2f}" for x in value.flatten()[:4].astype(float))
    print(f"{name:26} {shape:16} {first} ...")
values = tiny.run([weights, memory.states])
shown = {}
for name in ("encoder/block_1/self", "decoder/block_1/self", "decoder/block_1/cross"):
    attention = values[0][name + "_attention"][0, 0]  # of the first head
    shown[name.replace("/block_1/", " ")] = attention / attention.max()
shown["memory.states"] = (values[1][0] + 3) / 6
print("in the second block, a row for each query; the memory, a row for each piece:")
tiny.pictures(shown)
total, count = tiny.run([loss.sum, loss.count])
print(f"loss {total:.1f} / {count:.0f} tokens = {total / count:.3f} nats")
