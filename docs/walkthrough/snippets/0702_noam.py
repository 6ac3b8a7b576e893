# tolerance: 0.001
import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.training import learning_rate

tiny.start()
step = tf.placeholder(tf.int64, [])
steps = (1, 1000, 2000, 4000, 8000, 16000, 100000)
print("update          ", *[f"{s:8}" for s in steps])
dialects = ("paper", "kyubyong", "tensor2tensor", "tutorial")
with tf.Session() as session:
    for dialect in dialects:
        hp = HParams(dialect=dialect, warmup_steps=8000 if "2" in dialect else 4000)
        rate = learning_rate(hp, step)
        rates = [session.run(rate, {step: s - 1}) for s in steps]
        print(f"{dialect:16}", *[f"{r:8.2e}" for r in rates])
        if dialect == "paper":
            top = max(rates)
            for s, r in zip(steps, rates):
                print(f"{s:16} {'█' * int(round(40 * r / top))}")
