# tolerance: 0.05
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.text.batches import Split
from transformer.training import cross_entropy, make_update

tiny.start()
hp = HParams(
    num_blocks=1,
    d_model=64,
    d_ff=128,
    num_heads=4,
    source_vocab_size=500,
    target_vocab_size=500,
    schedule="constant",
    learning_rate=0.002,
)
batch = Split(tiny.data(), "train").batch(range(32), 0)
model = Transformer(hp)
logits = model.decode(
    tf.constant(batch.target_in), model.encode(tf.constant(batch.source))
)
loss = cross_entropy(logits, tf.constant(batch.target_out), 0.1)
update = make_update(loss, hp, tf.train.get_or_create_global_step())
with tiny.session() as session:
    print(f"ln V = {np.log(500):.2f}; the same batch again and again:")
    for step in range(1, 62):
        metrics, _ = session.run([update.metrics, update.apply])
        if step in (1, 2, 11, 61):
            print(f"update {step:2}: loss {metrics.loss:5.2f}")
