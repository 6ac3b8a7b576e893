#!/usr/bin/env bash
# TensorFlow 2.21.0: SlurmClusterResolver fails on machines without nvidia-smi, and counts one GPU
# where CUDA_VISIBLE_DEVICES is empty.
# Guessed: without GPUs it finds none, as TensorFlow does. Seen: FileNotFoundError of nvidia-smi; with
# CUDA_VISIBLE_DEVICES="" it sets the variable to "0" for the first task.
# Met by: whoever trains on the CPU nodes of a SLURM cluster. docs/scaling.md writes TF_CONFIG instead.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet tensorflow-cpu==2.21.0

SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_NODELIST=node1 \
  TF_CPP_MIN_LOG_LEVEL=3 env/bin/python - 2> /dev/null <<'PYTHON'
import os

import tensorflow as tf

make = tf.distribute.cluster_resolver.SlurmClusterResolver
os.environ["PATH"] = ""
os.environ.pop("CUDA_VISIBLE_DEVICES", None)
try:
    make(port_base=2222)
    raise SystemExit("expected FileNotFoundError")
except FileNotFoundError as error:
    print("no nvidia-smi:", error)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
resolver = make(port_base=2222)
print(resolver.cluster_spec().as_dict(), repr(os.environ["CUDA_VISIBLE_DEVICES"]))
assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
PYTHON
