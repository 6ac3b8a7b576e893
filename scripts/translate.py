"""Translates standard input, a line at a time: one line in, one line out."""
import argparse
import sys

import tensorflow.compat.v1 as tf

import eval as evaluation
import hparams
from transformer import checkpoints
from transformer.translator import Translator
