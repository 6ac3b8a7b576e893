import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.dialects import PAPER
from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.training import cross_entropy

for tied in (True, False):
    tiny.start()
    hp = HParams(
        dialect=PAPER._replace(tied_embeddings=tied),
        num_blocks=1,
        d_model=16,
        d_ff=32,
        num_heads=2,
        source_vocab_size=50,
        target_vocab_size=50,
    )
    model = Transformer(hp)
    memory = model.encode(tf.constant([[5, 6, 7, 3]]))
    logits = model.decode(tf.constant([[2, 8, 9]]), memory)
    loss = cross_entropy(logits, tf.constant([[8, 9, 3]]))
    variables = [v for v in tf.trainable_variables() if 50 in v.shape.as_list()]
    variables = [v for v in variables if len(v.shape) == 2]
    gradients = [tf.convert_to_tensor(g) for g in tf.gradients(loss.sum, variables)]
    print("tied" if tied else "not tied")
    for variable, gradient in zip(variables, tiny.run(gradients)):
        axis = 1 if gradient.shape[0] == 50 else 0
        rows = np.count_nonzero(abs(gradient).sum(axis=axis))
        print(f"  {variable.op.name:30} gradient in {rows:2} of 50 rows")
one = 37000 * 512
print(f"base model, 37,000 pieces, weights: tied {one:,}, else {3 * one:,}")
