"""The batches, by their earlier import path: see `text/batches.py`."""

from transformer.text.batches import Batch, BatchPlan, Shards, make_batch, pad
from transformer.text.batches import Split as Corpus

__all__ = ["Batch", "BatchPlan", "Corpus", "Shards", "make_batch", "pad"]
