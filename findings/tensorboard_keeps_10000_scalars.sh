#!/usr/bin/env bash
# TensorBoard 2.21.0: EventAccumulator returns 10,000 scalars of a longer run, a random sample.
# Guessed: all 20,000. Seen: 10,000; the last one is among them, the first one need not be.
# Met by: whoever reads the curve of a long run in Python, to find its best step or its first
# spike. (size_guidance={"scalars": 0} keeps all.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet tensorboard==2.21.0 setuptools==80.9.0

env/bin/python - 2> /dev/null <<'PYTHON'
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("events")
for step in range(20000):
    value = summary_pb2.Summary.Value(tag="loss", simple_value=step)
    summary = summary_pb2.Summary(value=[value])
    writer.add_event(event_pb2.Event(wall_time=step, step=step, summary=summary))
writer.close()


def read(**options):
    events = EventAccumulator("events", **options)
    events.Reload()
    return [event.step for event in events.Scalars("loss")]


steps = read()
print(f"{len(steps)} of 20000 scalars, steps {steps[:4]} ... {steps[-1]}")
assert len(steps) == 10000 and steps[-1] == 19999
assert len(read(size_guidance={"scalars": 0})) == 20000
PYTHON
