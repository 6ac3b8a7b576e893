"""Read the IMDB film reviews (Maas et al. 2011) from the file that Keras downloads.

The file, imdb.npz, holds pickled arrays of lists. A pickle can run any code when it is
read, but `ListsUnpickler` only takes the lists from it. classify.py uses this file.
"""

import pickle
import zipfile
from typing import Any, BinaryIO, Dict, List, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

Reviews = List[Tuple[List[int], int]]  # (ids, label): 1 for a positive review, else 0

UNKNOWN = 1
DOWNLOAD = "download"


def load(path: str, vocab_size: int) -> Tuple[Reviews, Reviews]:
    """Load (reviews to train on, reviews to test on).

    In the file, a word is its rank, from 1 for the most frequent word; its id is rank +
    1.

    Args:
      path: the path of the file, or DOWNLOAD.
      vocab_size: words with larger ids become UNKNOWN.

    Raises:
      ValueError: there are no such reviews.
    """
    arrays = download() if path == DOWNLOAD else read(path)
    splits = []
    for split in ("train", "test"):
        reviews = [
            [rank + 1 if rank + 1 < vocab_size else UNKNOWN for rank in review]
            for review in arrays["x_" + split]
        ]
        labels = [int(label) for label in arrays["y_" + split]]
        if len(labels) != len(reviews):
            raise ValueError(
                f"{path}: expected as many reviews x_{split} as labels y_{split}, got "
                f"{len(reviews)} and {len(labels)}; download the file again"
            )
        splits.append(list(zip(reviews, labels)))
    return splits[0], splits[1]


def download() -> Dict[str, Sequence]:
    """Download {"x_train": reviews, "y_train": labels, "x_test": …, "y_test": …}."""
    try:
        (x_train, y_train), (x_test, y_test) = tf.keras.datasets.imdb.load_data(
            start_char=None, oov_char=None, index_from=0
        )
    except Exception as error:  # Keras raises a plain Exception
        raise ValueError(
            f"the IMDB reviews cannot be downloaded ({error}); without a network, give "
            "the file: --imdb imdb.npz"
        ) from error
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def read(path: str) -> Dict[str, Sequence]:
    """Read the arrays of `download` from a file, without running code in it."""
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in ("x_train", "y_train", "x_test", "y_test"):
                if name + ".npy" not in archive.namelist():
                    raise ValueError(
                        f"{path}: expected {name}.npy as well, got "
                        f"{archive.namelist()}; download the file again"
                    )
                with archive.open(name + ".npy") as file:
                    arrays[name] = read_array(file)
    except (EOFError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path}: expected imdb.npz, got a file that cannot be read ({error}); "
            "download it again"
        ) from error
    return arrays


def read_array(file: BinaryIO) -> Sequence:
    """Read an array of numbers, or a list of lists of ints, in .npy format."""
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        array = ListsUnpickler(file, encoding="latin1").load()
        if not isinstance(getattr(array, "content", None), list):
            raise ValueError("a pickled array holds no lists of numbers")
        return array.content
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer(file.read(size), dtype).reshape(shape)


class Pickled:
    """Stands for an array or its dtype; NumPy would take any bytes for addresses."""

    def __init__(self, *arguments):
        pass

    def __setstate__(self, state):
        self.content = state[-1]


class ListsUnpickler(pickle.Unpickler):
    """Reads an array of lists as Pickled; any object but these is an error."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class of an array; raise ValueError for any other class."""
        is_array = name in ("ndarray", "dtype", "_reconstruct")
        if is_array and module.partition(".")[0] == "numpy":
            return Pickled
        if (module, name) == ("_codecs", "encode"):
            return lambda text, encoding: text.encode("latin1")
        raise ValueError(
            f"expected lists of numbers, got {module}.{name} in a pickled array"
        )
