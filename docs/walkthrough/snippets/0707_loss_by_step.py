# tolerance: 0.2
import re

import tiny

from transformer.logdir.history import read_dev_scores

logdir = tiny.trained()
with open(f"{logdir}/train.log", encoding="utf-8") as file:
    log = file.read()
for step, loss in re.findall(r"step (\d+)/\d+  loss ([\d.]+)", log):
    print(f"step {step}: loss {float(loss):.1f}")
last = read_dev_scores(logdir)[-1]
print(f"dev: loss without smoothing {last['loss']:.1f}, BLEU {last['bleu']:.0f}")
