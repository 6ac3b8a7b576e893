"""Worker for OpenNMT-tf 2.32, which needs TensorFlow 2.13.

It decodes with random weights, as many pieces as the reference has.
"""

import os
import tempfile
from typing import Any, Dict

import numpy as np
import opennmt
import tensorflow as tf
import work
from worker import Measure, serve

from transformer import hparams
from transformer.text.batches import pad_with_end
from transformer.text.vocabulary import load_vocabularies


def make_model(
    sizes: Dict[str, int], vocab_size: int, params: Dict[str, Any]
) -> opennmt.models.Transformer:
    """Return a Transformer with the same sizes and with all embeddings shared."""
    model = opennmt.models.Transformer(
        num_layers=sizes["num_blocks"],
        num_units=sizes["d_model"],
        num_heads=sizes["num_heads"],
        ffn_inner_dim=sizes["d_ff"],
        dropout=work.DROPOUT,
        attention_dropout=work.DROPOUT,
        ffn_dropout=work.DROPOUT,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocabulary")
        special = ["<blank>", "<s>", "</s>"]  # plus one for unknown words
        words = [f"piece{i}" for i in range(vocab_size - len(special) - 1)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(special + words) + "\n")
        model.initialize(
            {"source_vocabulary": path, "target_vocabulary": path}, params=params
        )
        model.create_variables()
    return model


def set_up(spec: dict) -> None:
    """Set the seed and the threads."""
    tf.random.set_seed(work.SEED)
    tf.config.threading.set_intra_op_parallelism_threads(spec["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(spec["threads"])


def open_training(spec: dict) -> Measure:
    """Return a function that measures training."""
    set_up(spec)
    model = make_model(
        spec["sizes"],
        spec["vocab_size"],
        {"label_smoothing": work.LABEL_SMOOTHING, "average_loss_in_time": True},
    )
    optimizer = opennmt.optimizers.make_optimizer(
        "Adam",
        work.LEARNING_RATE,
        beta_1=work.BETAS[0],
        beta_2=work.BETAS[1],
        epsilon=work.EPSILON,
    )
    ids = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[ids] * 3)
    def update(source, target_in, target_out):
        def lengths(ids):
            return tf.reduce_sum(tf.cast(ids != 0, tf.int32), 1)

        return model.train(
            {"ids": source, "length": lengths(source)},
            {"ids": target_in, "ids_out": target_out, "length": lengths(target_out)},
            optimizer,
        )

    measure = work.measure_training(lambda batch: update(*batch[:3]).numpy())
    source = work.batches(spec)
    return lambda request: measure(request, source)


def open_decoding(spec: dict) -> Measure:
    """Return a function that measures translation."""
    set_up(spec)
    hp = hparams.load(spec["logdir"])
    model = make_model(
        vars(hp), hp.target_vocab_size, {"beam_width": spec["beam_size"]}
    )
    source_vocabulary, target_vocabulary, _ = load_vocabularies(spec["logdir"])
    test_sources, references = work.test_lines(spec["data"])
    lengths = dict(
        zip(
            test_sources,
            (len(ids) + 1 for ids in target_vocabulary.encode_lines(references)),
        )
    )

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ]
    )
    def search(ids, length):
        model.params.update(
            minimum_decoding_length=length, maximum_decoding_length=length
        )
        sizes = tf.reduce_sum(tf.cast(ids != 0, tf.int32), 1)
        return model.infer({"ids": ids, "length": sizes})["length"]

    def translate(lines, batch):
        sources = source_vocabulary.encode_lines(lines)
        for indices in work.in_batches(sources, batch):
            max_length = max(lengths[lines[i]] for i in indices)
            search(
                pad_with_end([sources[i] for i in indices]), np.int32(max_length)
            ).numpy()
        return [lengths[line] for line in lines]

    return work.measure_decoding(translate, test_sources)


if __name__ == "__main__":
    serve({"train": open_training, "decode": open_decoding})
