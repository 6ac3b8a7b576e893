# tolerance: 0.03
import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.model import Transformer

size = dict(num_blocks=2, d_model=32, d_ff=64, num_heads=4)
size.update(source_vocab_size=50, target_vocab_size=50)
alone = [[5, 6, 7, 8]]
padded = [[5, 6, 7, 8, 0, 0, 0, 0]]
print("dialect          weight on padding   change of the output")
for dialect in ("paper", "tutorial", "kyubyong_legacy", "kyubyong", "tensor2tensor"):
    tiny.start()
    source = tf.placeholder(tf.int32, [1, None])
    weights = {}
    memory = Transformer(HParams(dialect=dialect, **size)).encode(
        source, weights=weights
    )
    first = weights["encoder/block_0/self_attention"]
    with tiny.session() as session:
        short = session.run(memory.states, {source: alone})
        long, attention = session.run([memory.states, first], {source: padded})
    leaked = attention[0, :, :4, 4:].sum(axis=-1).mean()
    change = abs(long[:, :4] - short).max()
    print(f"{dialect:16} {leaked:12.3f} {change:20.3f}")
