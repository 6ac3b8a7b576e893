"""Log directories and data folders of other people: one line, whatever is in them.

A pipe, a socket, a device, a folder or other content takes the place of each name that
`logdir/names.py` lists, and of each file of a data folder. What reads it must neither
wait nor fail in any other way than with a line.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

from transformer import alignment, hparams
from transformer.commands.align import read_aligned
from transformer.logdir import checkpoints, history, manifests, names
from transformer.logdir.history import Lock
from transformer.logdir.tensor_index import check_index
from transformer.runtime import files
from transformer.runtime.errors import CheckpointError, DataFolderChanged
from transformer.text.batches import Split
from transformer.text.data_folder import (
    ID_FILES,
    SUMMARY,
    load_text,
    open_integers,
    read_summary,
    verify_checksums,
    write_integers,
)
from transformer.text.lines import read_lines, read_stored_lines
from transformer.text.vocabulary import FILE_NAMES, load_vocabularies
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only", "small_limit")


@pytest.fixture
def small_limit(monkeypatch):
    """Few bytes are many."""
    monkeypatch.setattr(files, "MAX_SIZE", 1 << 19)


# --- What may be in place of a file ---------------------------------------------------


def put_socket(path):
    folder, name = os.path.split(path)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as end:
        before = os.getcwd()
        os.chdir(folder)  # the path of a socket must be short
        try:
            end.bind(name)
        finally:
            os.chdir(before)


def put_content(change):
    def put(path, content):
        with open(path, "wb") as file:
            file.write(change(content))

    return put


def put_huge(path, content):
    """A file of many bytes, which takes no room on the disk."""
    with open(path, "wb") as file:
        file.truncate(files.MAX_SIZE + 1)


# Kind → function of a path, where nothing is, and the content of before.
IRREGULAR = {
    "pipe": lambda path, content: os.mkfifo(path),
    "socket": lambda path, content: put_socket(path),
    "device": lambda path, content: os.symlink("/dev/zero", path),
    "folder": lambda path, content: os.mkdir(path),
    "link to a pipe": lambda path, content: (
        os.mkfifo(path + ".pipe"),
        os.symlink(path + ".pipe", path),
    ),
}
CONTENTS = {
    "empty": put_content(lambda content: b""),
    "cut": put_content(lambda content: content[: len(content) // 2]),
    "zeros": put_content(lambda content: bytes(len(content))),
    "not UTF-8": put_content(lambda content: b"\xff" * 999),
    "huge": put_huge,
}
FAULTS = {**IRREGULAR, **CONTENTS}


def replace(path, fault):
    """Put something else in place of a file, which may be missing."""
    path = str(path)
    content = b""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        with open(path, "rb") as file:
            content = file.read()
        os.remove(path)
    FAULTS[fault](path, content)


class Waiting(BaseException):
    """Something waits; it is no Exception, which a library might suppress."""


@contextlib.contextmanager
def time_limit(seconds=60):
    """Fail, instead of waiting for somebody who writes into a pipe."""

    def fail(*_):
        raise Waiting

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refuse(function, *args):
    """Call a function; return the line with which it refuses, or None."""
    with time_limit():
        try:
            function(*args)
        except (ValueError, OSError) as error:
            assert "\n" not in str(error)
            return str(error)
    return None


# --- Log directories ------------------------------------------------------------------


def newest(logdir):
    return manifests.find_checkpoint(logdir, "newest", lambda text: None)


def take_lock(logdir):
    with Lock(logdir):
        pass


def find_faults(logdir):
    """Verify all checkpoints; raise ValueError with the first fault."""
    for checkpoint in manifests.list_candidates(logdir):
        fault = manifests.find_fault(checkpoint)
        if fault:
            raise ValueError(fault)


def read_translations(logdir):
    list(read_stored_lines(os.path.join(logdir, "best.ckpt-1.dev.translations")))


def make_folder(logdir):
    with files.new_folder(os.path.join(logdir, "new"), "out"):
        pass


# A name in the table of `names.py` → the name of a file, and what reads it, or None.
READERS = {
    "hparams.json": ("hparams.json", hparams.load),
    "spm*.model": ("spm.model", load_vocabularies),
    "words*.tsv": ("words.tsv", load_vocabularies),
    "vocab*.subwords": ("vocab.subwords", load_vocabularies),
    "lock": ("lock", take_lock),
    "run.jsonl": ("run.jsonl", history.read_run),
    "dev_scores.jsonl": ("dev_scores.jsonl", history.read_dev_scores),
    "events.out.tfevents.*": ("events.out.tfevents.1", None),  # TensorBoard
    "model.ckpt-STEP.*": ("model.ckpt-*.*", find_faults),
    "best.ckpt-STEP.*": ("best.ckpt-*.*", find_faults),
    "checkpoint": ("checkpoint", None),  # TensorFlow's tools
    ".saving/": (".saving", lambda logdir: checkpoints.remove_unfinished(logdir)),
    "CHECKPOINT.TEXT.translations": ("best.ckpt-1.dev.translations", read_translations),
    "alignment.json": (
        "alignment.json",
        lambda logdir: alignment.read_chosen_head(
            logdir, newest(logdir), hparams.load(logdir)
        ),
    ),
    "ctranslate2-QUANTIZATION-HASH/": ("", None),  # see test_ctranslate2.py
    ".unfinished-*/": (".unfinished-1", make_folder),
}
# What needs no refusal: whatever is there is ignored, or removed.
IGNORED = ("alignment.json", ".saving", ".unfinished-1")


@pytest.fixture
def logdir(trained, tmp_path):
    return corpora.copy_folder(trained, tmp_path / "logs")


def test_every_name_of_a_log_directory_has_a_reader_here():
    listed = re.findall(r"^\| (`[^|]+) \|", names.__doc__, re.M)
    listed = re.findall(r"`(.+?)`", " ".join(listed))
    assert sorted(READERS) == sorted(listed)


def test_every_file_of_a_log_directory_has_a_name_in_the_list(trained):
    patterns = [
        re.sub(r"STEP|CHECKPOINT|TEXT|QUANTIZATION|HASH|\\\*", ".*", re.escape(name))
        for name in READERS
    ]
    for name in os.listdir(trained):
        assert any(re.fullmatch(pattern, name) for pattern in patterns), name


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("pattern", [name for name in READERS if READERS[name][1]])
def test_what_is_in_place_of_a_file_is_refused_in_a_line(logdir, pattern, fault):
    name, read = READERS[pattern]
    paths = sorted(tf.io.gfile.glob(os.path.join(logdir, name)))
    assert paths or "ckpt" not in pattern
    for path in paths or [os.path.join(logdir, name)]:
        if "spm" not in name and name in ("words.tsv", "vocab.subwords"):
            os.remove(os.path.join(logdir, "spm.model"))
        content = None
        if os.path.isfile(path):
            with open(path, "rb") as file:
                content = file.read()
        replace(path, fault)
        message = refuse(read, logdir)
        if fault in IRREGULAR and name not in IGNORED:
            assert message and os.path.basename(path) in message
            assert "expected a file, got " in message
        if fault != "folder" or name != ".saving":
            continue_with(path, content)


def continue_with(path, content):
    """Put a file back."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
    if os.path.lexists(path + ".pipe"):
        os.remove(path + ".pipe")
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)


COMMANDS = {
    "hparams.json": ("translate", "eval", "doctor", "train", "average", "export"),
    "spm.model": ("translate", "train"),
    "lock": ("train",),
    "run.jsonl": ("train",),
    "dev_scores.jsonl": ("train",),
    "best.ckpt-*.data-*": ("translate",),
    "*.ckpt-*.index": ("eval", "train", "average"),
    "*.ckpt-*.sha256": ("doctor", "export"),
}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", COMMANDS)
def test_no_command_waits_for_a_pipe(logdir, digits, pattern, tmp_path, capsys):
    flags = {
        "train": ["--data", digits],
        "average": ["--last", "2", "--out", tmp_path / "mean"],
        "export": ["--out", tmp_path / "exported", "--format", "savedmodel"],
    }
    for path in tf.io.gfile.glob(os.path.join(logdir, pattern)):
        replace(path, "pipe")
    for command in COMMANDS[pattern]:
        with time_limit():
            argv = ["--logdir", logdir, *flags.get(command, [])]
            if "best" in pattern:
                argv += ["--checkpoint", "best"]
            status = corpora.exit_status(command, *argv)
        stderr = capsys.readouterr().err
        assert "got a pipe" in stderr and "Traceback" not in stderr
        assert status == 2 or "is used instead" in stderr


# --- Data folders ---------------------------------------------------------------------


def read_split(split, folder):
    return Split(folder, split)


def read_text(split, folder):
    return load_text(folder, split)


DATA_READERS = {
    SUMMARY: read_summary,
    "spm.model": load_vocabularies,
    **{name: functools.partial(read_split, name.split(".")[0]) for name in ID_FILES},
    **{
        f"{split}.{language}": functools.partial(read_text, split)
        for split in ("dev", "test")
        for language in ("de", "en")
    },
    "dev.align": lambda folder: read_aligned(folder, "dev"),
}
ONLY_PREPARED = ("train.de", "train.en")  # prepare.py refuses what is not a file


@pytest.fixture
def data(digits, tmp_path):
    folder = corpora.copy_folder(digits, tmp_path / "data")
    corpora.write_lines(os.path.join(folder, "dev.align"), ["0-0"] * 20)
    return folder


def test_every_file_of_a_data_folder_has_a_reader_here(data):
    assert sorted(os.listdir(data)) == sorted([*DATA_READERS, *ONLY_PREPARED])
    assert {"spm.model"} <= {name for kind in FILE_NAMES for name in kind}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", DATA_READERS)
def test_what_is_in_place_of_a_file_of_data_is_refused_in_a_line(data, name, fault):
    replace(os.path.join(data, name), fault)
    message = refuse(DATA_READERS[name], data)
    if fault in IRREGULAR:
        assert message and name in message and "expected a file, got " in message
    if name.startswith("train.") or name in ("spm.model", SUMMARY):
        assert refuse(verify_checksums, data)


def test_a_pipe_that_a_person_names_is_read(tmp_path):
    """As in `--files <(zcat text.gz) reference.en`."""
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    writer = threading.Thread(target=corpora.write_lines, args=(path, ["a b", "c"]))
    writer.start()
    with time_limit():
        assert list(read_lines(path)) == ["a b", "c"]
    writer.join()


# --- Arrays ---------------------------------------------------------------------------


def header(text, version=b"\x01\x00", size=None):
    """The bytes before an array, as NumPy aligns them."""
    text = text.encode().ljust(117) + b"\n"
    size = len(text) if size is None else size
    return b"\x93NUMPY" + version + size.to_bytes(2, "little") + text


def describe(descr="'<i4'", fortran="False", shape="(4,)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


DATA = bytes(16)  # four int32
HEADERS = {
    "more than the file": header(describe(shape="(999999999999,)")) + DATA,
    "less than the file": header(describe(shape="(3,)")) + DATA,
    "no size": header(describe(shape="(10000000000000000000000000,)")) + DATA,
    "negative": header(describe(shape="(-4,)")) + DATA,
    "two axes": header(describe(shape="(2, 2)")) + DATA,
    "no axis": header(describe(shape="()")) + DATA[:4],
    "Fortran's order": header(describe(fortran="True")) + DATA,
    "objects": header(describe(descr="'|O'")) + DATA,
    "floats": header(describe(descr="'<f4'")) + DATA,
    "fields": header(describe(descr="[('x', '<i4')]")) + DATA,
    "no type": header(describe(descr="'<i3'")) + DATA,
    "an expression": header(describe(shape="(2 + 2,)")) + DATA,
    "no dictionary": header("[]") + DATA,
    "another version": header(describe(), version=b"\x02\x00") + DATA,
    "a header longer than the file": header(describe(), size=65535) + DATA,
    "a shorter header": header(describe(), size=54) + DATA,
    "a header alone": header(describe()),
    "its beginning": header(describe())[:30],
    "a pickle": b"\x80\x04]\x94.",
    "nothing": b"",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_only_what_numpy_writes_for_integers_is_an_array(tmp_path, kind):
    path = str(tmp_path / "ids.npy")
    with open(path, "wb") as file:
        file.write(HEADERS[kind])
    with pytest.raises(DataFolderChanged) as stopped:
        open_integers(path)
    assert path in str(stopped.value) and "\n" not in str(stopped.value)


@pytest.mark.parametrize("length", [0, 1, 12345])
@pytest.mark.parametrize("dtype", "u1 i1 u2 i2 u4 i4 u8 i8 >i4".split())
def test_what_numpy_writes_for_integers_is_read(tmp_path, dtype, length):
    array = np.arange(length).astype(dtype)
    for name in ("saved", "written"):
        path = str(tmp_path / f"{name}.npy")
        if name == "saved":
            np.save(path, array)
        else:
            with write_integers(path, array.dtype) as append:
                append(array)
        mapped = open_integers(path)
        assert isinstance(mapped, np.memmap) and mapped.dtype == array.dtype
        np.testing.assert_array_equal(mapped, array)


# --- The index of a checkpoint --------------------------------------------------------


def number(value):
    """Seven bits a byte, lowest first."""
    if value < 128:
        return bytes([value])
    return bytes([value & 127 | 128]) + number(value >> 7)


def table_block(pairs, shared=(), restarts=(0,), kind=0):
    """A block of (name, value), and what follows it: its kind, a checksum."""
    content = b"".join(
        number(0) + number(len(name)) + number(len(value)) + name + value
        for name, value in pairs
    )
    places = b"".join(place.to_bytes(4, "little") for place in restarts)
    return content + places + len(restarts).to_bytes(4, "little"), bytes(
        [kind]
    ) + b"\0" * 4


def index_file(entries, **options):
    """An index, as TensorFlow writes it: name → BundleEntryProto."""
    header = (b"", b"\x08\x01")  # one data file
    pairs = [header, *((name, entry.SerializeToString()) for name, entry in entries)]
    content, end = table_block(pairs, **options)
    handles, handles_end = table_block([(b"z", number(0) + number(len(content)))])
    footer = number(0) * 2 + number(len(content + end)) + number(len(handles))
    magic = (0xDB4775248B80FB57).to_bytes(8, "little")
    return content + end + handles + handles_end + footer.ljust(40, b"\0") + magic


def entry(shape=(5, 5), size=100, offset=0, dtype=1, shard=0):
    """An entry of float32 [5, 5], the 100 bytes of the data file."""
    proto = BundleEntryProto(dtype=dtype, size=size, offset=offset, shard_id=shard)
    for axis in shape:
        proto.shape.dim.add(size=axis)
    return proto


@pytest.fixture
def write_index(tmp_path):
    """write_index(content) → the path of a checkpoint whose data has 100 bytes."""

    def write(content):
        (tmp_path / "model.ckpt-1.data-00000-of-00001").write_bytes(bytes(100))
        (tmp_path / "model.ckpt-1.index").write_bytes(content)
        return str(tmp_path / "model.ckpt-1")

    return write


BROKEN = {
    "shape": index_file([(b"x", entry(shape=(5, 6)))]),
    "size": index_file([(b"x", entry(size=101))]),
    "place": index_file([(b"x", entry(offset=1))]),
    "second entry": index_file([(b"x", entry()), (b"y", entry(shape=(26,)))]),
    "compressed": index_file([(b"x", entry())], kind=1),
    "overlap": index_file([(b"x", entry())], restarts=(0, 3)),
    "footer": index_file([(b"x", entry())])[:-9],
    "half": index_file([(b"x", entry())])[30:],
    "nothing": b"",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_index_that_its_data_contradicts_does_not_reach_tensorflow(
    write_index, kind, monkeypatch
):
    """Which would believe it, and may end the process."""
    monkeypatch.setattr(tf.train, "load_checkpoint", None)
    checkpoint = write_index(BROKEN[kind])
    for read in (checkpoints.read_shapes, checkpoints.read_variables):
        with pytest.raises(CheckpointError, match="the checkpoint is damaged") as error:
            read(checkpoint)
        assert "\n" not in str(error.value) and "model.ckpt-1.index" in str(error.value)


def test_the_index_written_here_is_one_of_tensorflow(write_index):
    """Only its checksums are missing."""
    assert check_index(write_index(index_file([(b"x", entry())]))) == {"x": [5, 5]}


def test_shapes_are_those_that_tensorflow_reads(start, tmp_path):
    """Of an index of several blocks, with scalars, empty tensors, text, and a slice."""
    session, _ = start()
    sizes = [[], [0, 3], [2, 1]] * 1000
    values = [tf.zeros(size) for size in sizes] + [
        tf.constant(["a", "bc"]),
        tf.ones([2, 2]),
    ]
    variables = [f"a/rather/long/scope/of/variable/{i:04}" for i in range(3000)]
    checkpoint = str(tmp_path / "model.ckpt-1")
    session.run(
        tf.raw_ops.SaveV2(
            prefix=checkpoint,
            tensor_names=[*variables, "text", "sliced"],
            shape_and_slices=[""] * 3001 + ["4 2 0,2:-"],
            tensors=values,
        )
    )
    shapes = checkpoints.read_shapes(checkpoint)
    assert shapes["sliced"] == [4, 2] and shapes["text"] == [2] and len(shapes) == 3002
    reader = tf.train.load_checkpoint(checkpoint)
    assert shapes == reader.get_variable_to_shape_map()


@pytest.mark.slow
def test_a_forged_checkpoint_with_a_valid_manifest_is_refused(
    logdir, digits, capsys, tmp_path
):
    """Its data are shorter than its index says, and its manifest agrees."""
    for path in tf.io.gfile.glob(os.path.join(logdir, "*.data-*")):
        with open(path, "r+b") as file:
            file.truncate(1000)
        checkpoint = re.sub(r"\.data-.*", "", path)
        description = manifests.read_description(checkpoint)
        paths = [path, checkpoint + names.INDEX]
        manifests.write_manifest(checkpoint + names.MANIFEST, paths, description)
    for command, *flags in (
        ["translate"],
        ["eval"],
        ["train", "--data", digits],
        ["average", "--last", "2", "--out", tmp_path / "mean"],
        ["export", "--format", "savedmodel", "--out", tmp_path / "exported"],
    ):
        message = corpora.refusal(capsys, command, "--logdir", logdir, *flags)
        assert "the checkpoint is damaged" in message


# --- Later versions -------------------------------------------------------------------


def write_settings(logdir, version=None, **changes):
    """Change hparams.json; None removes a setting."""
    path = os.path.join(logdir, names.SETTINGS)
    with open(path, encoding="utf-8") as file:
        content = {**json.load(file), **changes}
    content = {name: value for name, value in content.items() if value is not None}
    if version:
        content["version"] = version
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


UPDATE = "version '99.0.1' of transformer-tf wrote hparams.json, .*: update the package"


@pytest.mark.parametrize(
    "changes", [{"rotary": True}, {"dialect": "later"}, {"search": "later"}]
)
def test_settings_of_a_later_version_ask_for_an_update(logdir, changes):
    write_settings(logdir, **changes)
    with pytest.raises(ValueError, match="rotary|dialect|search") as stopped:
        Translator.for_settings(hparams.load(logdir), logdir)
    assert "update" not in str(stopped.value)
    write_settings(logdir, "99.0.1")
    with pytest.raises(ValueError, match=UPDATE):
        hparams.load(logdir)


def test_positions_of_a_later_version_are_unknown(logdir):
    write_settings(logdir, positions="rotary")
    with pytest.raises(ValueError, match="unknown positions rotary"):
        Translator.for_settings(hparams.load(logdir), logdir)


def test_lines_of_a_later_version_are_not_to_be_removed(logdir):
    path = os.path.join(logdir, names.DEV_SCORES)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"step": 400, "comet": 0.9}\n')
    with pytest.raises(ValueError, match="remove the line"):
        history.read_dev_scores(logdir)
    write_settings(logdir, "99.0.1")
    with pytest.raises(ValueError, match=UPDATE) as stopped:
        history.read_dev_scores(logdir)
    assert "remove the line" not in str(stopped.value)


@pytest.mark.parametrize("version", [None, "99.0.1"])
def test_a_setting_that_only_the_manifest_has_is_not_ignored(logdir, version):
    """It changes what the weights mean."""
    checkpoint = newest(logdir)
    description = manifests.read_description(checkpoint)
    description["settings"]["rotary"] = True
    paths = sorted(tf.io.gfile.glob(checkpoint + ".[di]*"))
    manifests.write_manifest(checkpoint + names.MANIFEST, paths, description)
    write_settings(logdir, version)
    fault = manifests.find_fault(checkpoint)
    assert "hparams.json lacks rotary, but" in fault and "trained with True" in fault
    assert bool(re.search(UPDATE, fault)) == bool(version)


def test_a_line_removed_from_the_settings_is_missed(logdir):
    write_settings(logdir, num_heads=None)
    with pytest.raises(ValueError, match="lacks num_heads, but .* trained with 4"):
        newest(logdir)


@pytest.mark.parametrize("content", [b"", b'{"data": "x', b"\xff\xfe{}", b"[]"])
def test_the_advice_for_damaged_settings_brings_them_back(
    trained, tmp_path, capsys, content
):
    logdir = corpora.copy_folder(trained, tmp_path / "my logs")
    path = pathlib.Path(logdir, "hparams.json")
    settings = hparams.load(logdir)
    path.write_bytes(content)
    message = corpora.refusal(capsys, "translate", "--logdir", logdir)
    command = message[message.index("tail -n 1") :]
    subprocess.run(command, shell=True, check=True)
    assert hparams.load(logdir) == settings
    path.write_bytes(content)
    os.remove(os.path.join(logdir, "run.jsonl"))
    message = corpora.refusal(capsys, "translate", "--logdir", logdir)
    assert message.rstrip().endswith("put back a copy of it")
