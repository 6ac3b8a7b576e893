"""Trains a classifier of film reviews, good or bad, and prints its accuracy.

The sentiment classifier of bojone/attention in the functions of
`transformer.functional`: embedding, positions, attention, mean, dropout, sigmoid.

    python examples/classify.py                     our own reviews: `make_reviews.py`
    python examples/classify.py --imdb imdb.npz     the IMDB reviews (Maas et al. 2011)
    python examples/classify.py --imdb              the same, downloaded by Keras
"""

import argparse
import pickle
import sys
import time
import zipfile
from typing import Any, NamedTuple

import make_reviews
import numpy as np
import tensorflow.compat.v1 as tf

import hparams
from transformer.blocks.primitives import dense, dropout
from transformer.functional import attention, position_embedding
from transformer.modules import embedding

PAD, UNKNOWN, FIRST_WORD = 0, 1, 2
DOWNLOAD = "download"

# As in the source.
VOCAB_SIZE, MAX_LENGTH = 20000, 80
D_MODEL, HEADS, SIZE_PER_HEAD = 128, 8, 16
DROPOUT_RATE, BATCH_SIZE, LEARNING_RATE = 0.5, 32, 0.001


class Corpus(NamedTuple):
    """Reviews, each a list of ids, with their labels, 1 for a good one, else 0."""

    train: Any  # [(ids, label)]
    test: Any  # [(ids, label)]
    vocab_size: int


class Classifier(NamedTuple):
    """What is fed and fetched."""

    ids: Any  # int32 [N, T]
    labels: Any  # float32 [N]
    is_training: Any  # bool []
    good: Any  # float32 [N], the probability of a good review
    loss: Any  # float32 []
    train_op: Any


# --- Reviews --------------------------------------------------------------------------


def own_reviews(pairs, seed):
    """A Corpus of `make_reviews`; none of the test reviews is among the others."""
    train = make_reviews.reviews(pairs, seed)
    known = {tuple(words) for words, _ in train}
    test = [
        (words, label)
        for words, label in make_reviews.reviews(500, seed + 1)
        if tuple(words) not in known
    ]
    words = sorted({word for review in known for word in review})
    ids = {word: i for i, word in enumerate(words, FIRST_WORD)}
    return Corpus(
        *(
            [
                ([ids.get(word, UNKNOWN) for word in review], label)
                for review, label in part
            ]
            for part in (train, test)
        ),
        vocab_size=FIRST_WORD + len(words),
    )


def imdb_reviews(path, vocab_size):
    """A Corpus of the IMDB reviews; `path` is the file, or DOWNLOAD.

    There a word is its rank, 1 for the most frequent one, whose id here is FIRST_WORD.
    """
    arrays = download_imdb() if path == DOWNLOAD else read_imdb(path)
    parts = []
    for part in ("train", "test"):
        reviews = [
            [rank + 1 if rank + 1 < vocab_size else UNKNOWN for rank in review]
            for review in arrays["x_" + part]
        ]
        labels = [int(label) for label in arrays["y_" + part]]
        if len(labels) != len(reviews):
            raise ValueError(
                f"{path}: found {len(reviews)} reviews x_{part} and "
                f"{len(labels)} labels y_{part}, wanted as many"
            )
        parts.append(list(zip(reviews, labels)))
    return Corpus(*parts, vocab_size=vocab_size)


def download_imdb():
    """{"x_train": reviews, "y_train": labels, "x_test": ..., "y_test": ...}."""
    try:
        (x_train, y_train), (x_test, y_test) = tf.keras.datasets.imdb.load_data(
            start_char=None, oov_char=None, index_from=0
        )
    except Exception as error:  # Keras raises a plain Exception
        raise ValueError(
            f"found no download of the IMDB reviews ({error}); without a "
            "network give the file, --imdb imdb.npz"
        ) from error
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def read_imdb(path):
    """The same from a file as Keras downloads it; runs nothing that is in the file."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            if name + ".npy" not in archive.namelist():
                raise ValueError(
                    f"{path}: found {archive.namelist()}, wanted {name}.npy as well"
                )
            with archive.open(name + ".npy") as file:
                arrays[name] = read_array(file)
    return arrays


def read_array(file):
    """An array in the format .npy, of numbers or of lists of numbers."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        return ListsUnpickler(file, encoding="latin1").load()
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer(file.read(size), dtype).reshape(shape)


class ListsUnpickler(pickle.Unpickler):
    """Reads an array of lists of numbers, and refuses what would run other code."""

    reconstruct = np.empty(0, object).__reduce__()[0]
    ALLOWED = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): reconstruct,
        ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),
    }

    def find_class(self, module, name):
        if (module, name) not in self.ALLOWED:
            raise ValueError(
                f"found {module}.{name} in a pickled array, wanted lists of numbers"
            )
        return self.ALLOWED[module, name]


# --- The model ------------------------------------------------------------------------


def build(vocab_size):
    """The graph of the classifier."""
    ids = tf.placeholder(tf.int32, [None, None])  # [N, T]
    labels = tf.placeholder(tf.float32, [None])
    is_training = tf.placeholder_with_default(False, [])
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(ids, PAD), tf.int32), 1)

    x = embedding(ids, vocab_size, D_MODEL, scale=False)  # [N, T, D]
    x += position_embedding(ids, D_MODEL)
    x = attention(x, x, x, HEADS, SIZE_PER_HEAD, lengths, lengths)  # [N, T, H * 16]
    # Padding came out of the attention as zeros, so this is the mean of the words.
    x = tf.reduce_sum(x, 1) / tf.cast(tf.maximum(lengths, 1), tf.float32)[:, None]
    x = dropout(x, DROPOUT_RATE, is_training)  # [N, H * 16]
    logits = dense(x, 1, True, "output")[:, 0]  # [N]

    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train_op = tf.train.AdamOptimizer(LEARNING_RATE).minimize(loss)
    return Classifier(ids, labels, is_training, tf.sigmoid(logits), loss, train_op)


def batches(reviews, draw=None):
    """(ids [N, T], labels [N]) of all reviews, in random order if `draw` is given."""
    order = np.arange(len(reviews)) if draw is None else draw.permutation(len(reviews))
    for start in range(0, len(order), BATCH_SIZE):
        chosen = [reviews[i] for i in order[start : start + BATCH_SIZE]]
        chosen = [(ids[-MAX_LENGTH:], label) for ids, label in chosen]
        padded = np.full([len(chosen), max(len(ids) for ids, _ in chosen)], PAD)
        for row, (ids, _) in zip(padded, chosen):
            row[: len(ids)] = ids
        yield padded, [label for _, label in chosen]


def accuracy(session, model, reviews):
    """The share of the reviews that the model takes for what they are."""
    right = sum(
        np.sum((session.run(model.good, {model.ids: ids}) > 0.5) == labels)
        for ids, labels in batches(reviews)
    )
    return right / len(reviews)


def run(args):
    corpus = (
        imdb_reviews(args.imdb, VOCAB_SIZE)
        if args.imdb
        else own_reviews(args.pairs, args.seed)
    )
    epochs = args.epochs or (3 if args.imdb else 8)
    print(
        f"{len(corpus.train)} reviews to learn from, {len(corpus.test)} to test "
        f"with, {corpus.vocab_size} ids"
    )
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(args.seed)
        model, draw = build(corpus.vocab_size), np.random.RandomState(args.seed)
        session.run(tf.global_variables_initializer())
        for epoch in range(1, epochs + 1):
            start, losses = time.time(), []
            for ids, labels in batches(corpus.train, draw):
                losses.append(
                    session.run(
                        [model.loss, model.train_op],
                        {model.ids: ids, model.labels: labels, model.is_training: True},
                    )[0]
                )
            print(
                f"epoch {epoch}  loss {np.mean(losses):.3f}  "
                f"{time.time() - start:.1f} s",
                flush=True,
            )
        print(f"accuracy = {accuracy(session, model, corpus.test):.4f}")


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--imdb",
        nargs="?",
        const=DOWNLOAD,
        metavar="FILE",
        help="the IMDB reviews, imdb.npz; without FILE, by download",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=2000,
        metavar="INT",
        help="our own reviews to learn from, in pairs [2000]",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        metavar="INT",
        help="times to learn from every review [8; IMDB: 3]",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="INT")
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (
        ValueError,
        OSError,
        EOFError,
        zipfile.BadZipFile,
        pickle.UnpicklingError,
    ) as error:
        sys.exit(f"classify.py: {error}")


if __name__ == "__main__":
    main()
