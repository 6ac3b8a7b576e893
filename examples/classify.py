"""Train a classifier of film reviews, positive or negative, and print its accuracy.

    python examples/classify.py                  on reviews made by make_reviews.py
    python examples/classify.py --imdb imdb.npz  on those of IMDB (Maas et al. 2011)
    python examples/classify.py --imdb           on the same, downloaded by Keras

This is the sentiment classifier of bojone/attention, written with
`transformer.functional`: embedding, positions, attention, mean, dropout, sigmoid.
"""

import argparse
import pickle
import time
import zipfile
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Tuple

import make_reviews
import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.primitives import dense, dropout
from transformer.functional import attention, position_embedding
from transformer.modules import embedding
from transformer.runtime import cli

Reviews = List[Tuple[List[int], int]]  # (ids, label): 1 for a positive review, else 0

PAD, UNKNOWN, FIRST_WORD = 0, 1, 2
DOWNLOAD = "download"

# As in bojone/attention.
VOCAB_SIZE, MAX_LENGTH = 20000, 80
D_MODEL, HEADS, SIZE_PER_HEAD = 128, 8, 16
DROPOUT_RATE, BATCH_SIZE, LEARNING_RATE = 0.5, 32, 0.001


class Corpus(NamedTuple):
    """Labelled reviews."""

    train: Reviews
    test: Reviews
    vocab_size: int


class Classifier(NamedTuple):
    """The tensors of a classifier that are fed and fetched."""

    ids: Any  # int32 [N, T]
    labels: Any  # float32 [N]
    is_training: Any  # bool []
    positive: Any  # float32 [N], the probability of a positive review
    loss: Any  # float32 []
    train_op: Any


def own_reviews(pairs: int, seed: int) -> Corpus:
    """Return a Corpus of made reviews, without training reviews among those of test."""
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


def imdb_reviews(path: str, vocab_size: int) -> Corpus:
    """Return a Corpus of the IMDB reviews.

    In the file a word is its rank, from 1 for the most frequent word; the ids begin
    with FIRST_WORD.

    Args:
      path: the file, or DOWNLOAD.
      vocab_size: words with larger ids become UNKNOWN.

    Raises:
      ValueError: there are no such reviews.
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
                f"{len(labels)} labels y_{part}, wanted the same number: download the "
                f"file again"
            )
        parts.append(list(zip(reviews, labels)))
    return Corpus(*parts, vocab_size=vocab_size)


def download_imdb() -> Dict[str, np.ndarray]:
    """Return {"x_train": reviews, "y_train": labels, "x_test": ..., "y_test": ...}."""
    try:
        (x_train, y_train), (x_test, y_test) = tf.keras.datasets.imdb.load_data(
            start_char=None, oov_char=None, index_from=0
        )
    except Exception as error:  # Keras raises a plain Exception
        raise ValueError(
            f"found no download of the IMDB reviews ({error}), wanted one: without a "
            f"network give the file, --imdb imdb.npz"
        ) from error
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def read_imdb(path: str) -> Dict[str, np.ndarray]:
    """Return the same from the file that Keras downloads; run no code in it."""
    try:
        return _read_arrays(path)
    except (EOFError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path}: found a file that cannot be read ({error}), wanted imdb.npz: "
            f"download it again"
        ) from error


def _read_arrays(path):
    """Return the four arrays of a file."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            if name + ".npy" not in archive.namelist():
                raise ValueError(
                    f"{path}: found {archive.namelist()}, wanted {name}.npy as well: "
                    f"download the file again"
                )
            with archive.open(name + ".npy") as file:
                arrays[name] = read_array(file)
    return arrays


def read_array(file: BinaryIO) -> np.ndarray:
    """Return an array in the format .npy, of numbers or of lists of numbers."""
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
    """Reads an array of lists of numbers, and refuses to run any other code."""

    reconstruct = np.empty(0, object).__reduce__()[0]
    ALLOWED = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): reconstruct,
        ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),
    }

    def find_class(self, module, name):
        """Return an allowed class or function; raise ValueError for any other."""
        if (module, name) not in self.ALLOWED:
            raise ValueError(
                f"found {module}.{name} in a pickled array, wanted lists of numbers"
            )
        return self.ALLOWED[module, name]


def build(vocab_size: int) -> Classifier:
    """Build the graph of the classifier."""
    ids = tf.placeholder(tf.int32, [None, None])  # [N, T]
    labels = tf.placeholder(tf.float32, [None])
    is_training = tf.placeholder_with_default(False, [])
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(ids, PAD), tf.int32), 1)

    x = embedding(ids, vocab_size, D_MODEL, scale=False)  # [N, T, D]
    x += position_embedding(ids, D_MODEL)
    x = attention(x, x, x, HEADS, SIZE_PER_HEAD, lengths, lengths)  # [N, T, H * 16]
    # The attention returns zeros for padding, so this is the mean over the words.
    x = tf.reduce_sum(x, 1) / tf.cast(tf.maximum(lengths, 1), tf.float32)[:, None]
    x = dropout(x, DROPOUT_RATE, is_training)  # [N, H * 16]
    logits = dense(x, 1, True, "output")[:, 0]  # [N]

    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train_op = tf.train.AdamOptimizer(LEARNING_RATE).minimize(loss)
    return Classifier(ids, labels, is_training, tf.sigmoid(logits), loss, train_op)


def batches(reviews: Reviews, draw=None) -> Iterator[Tuple[np.ndarray, List[int]]]:
    """Yield (ids [N, T], labels [N]) of all reviews.

    Args:
      reviews: of which the last MAX_LENGTH words are used.
      draw: a RandomState for a random order; None for the order given.
    """
    order = np.arange(len(reviews)) if draw is None else draw.permutation(len(reviews))
    for start in range(0, len(order), BATCH_SIZE):
        chosen = [reviews[i] for i in order[start : start + BATCH_SIZE]]
        chosen = [(ids[-MAX_LENGTH:], label) for ids, label in chosen]
        padded = np.full([len(chosen), max(len(ids) for ids, _ in chosen)], PAD)
        for row, (ids, _) in zip(padded, chosen):
            row[: len(ids)] = ids
        yield padded, [label for _, label in chosen]


def accuracy(session: tf.Session, model: Classifier, reviews: Reviews) -> float:
    """Return the share of the reviews that are classified correctly."""
    right = sum(
        np.sum((session.run(model.positive, {model.ids: ids}) > 0.5) == labels)
        for ids, labels in batches(reviews)
    )
    return right / len(reviews)


def train(session: tf.Session, model: Classifier, reviews: Reviews, draw) -> float:
    """Train on all reviews once, in random order; return the mean loss."""
    losses = []
    for ids, labels in batches(reviews, draw):
        feeds = {model.ids: ids, model.labels: labels, model.is_training: True}
        losses.append(session.run([model.loss, model.train_op], feeds)[0])
    return float(np.mean(losses))


def run(args: argparse.Namespace) -> None:
    """Train a classifier, and print its accuracy."""
    cli.start_tensorflow(args.verbose)
    corpus = (
        imdb_reviews(args.imdb, VOCAB_SIZE)
        if args.imdb
        else own_reviews(args.pairs, args.seed)
    )
    print(
        f"{len(corpus.train)} reviews to train on, {len(corpus.test)} to test on, "
        f"{corpus.vocab_size} ids"
    )
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(args.seed)
        model, draw = build(corpus.vocab_size), np.random.RandomState(args.seed)
        session.run(tf.global_variables_initializer())
        for epoch in range(1, (args.epochs or (3 if args.imdb else 8)) + 1):
            start = time.time()
            loss = train(session, model, corpus.train, draw)
            seconds = time.time() - start
            print(f"epoch {epoch}  loss {loss:.3f}  {seconds:.1f} s", flush=True)
        print(f"accuracy = {accuracy(session, model, corpus.test):.4f}")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("classify.py", __doc__)
    parser.add_argument(
        "--imdb",
        nargs="?",
        const=DOWNLOAD,
        metavar="FILE",
        help="use the IMDB reviews, imdb.npz; without FILE, download them",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=2000,
        metavar="INT",
        help="pairs of made reviews to train on [2000]",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        metavar="INT",
        help="how many times to train on every review [8; IMDB: 3]",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="INT", help="of all random numbers [1]"
    )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
