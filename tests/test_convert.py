"""convert.py: checkpoints of original systems, and refusals."""

import re

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from originals import (
    DIALECTS,
    SHARDS,
    SIZES,
    VOCAB,
    as_original,
    import_arrays,
    random_model,
    run_import,
    settings,
    source_of,
    with_moments,
    write,
)

from transformer import hparams
from transformer.compat import convert
from transformer.logdir.names import checkpoint_path
from transformer.model import Transformer
from transformer.runtime.errors import VariableNamesError, VocabulariesAmbiguous
from transformer.training import cross_entropy, make_update


@pytest.mark.parametrize(
    "dialect",
    [
        "tutorial",
        *(pytest.param(x, marks=pytest.mark.slow) for x in DIALECTS if x != "tutorial"),
    ],
)
def test_the_checkpoint_has_what_training_restores(dialect, tmp_path):
    arrays = with_moments(dialect)
    logdir = run_import(
        dialect, write(arrays, tmp_path), tmp_path / "log", "--target_space_id", "1"
    )
    imported = corpora.read_variables(checkpoint_path(logdir, 3))
    warmup = {"tensor2tensor": 8000}.get(dialect, 4000)  # of its third version
    hp = hparams.load(logdir)
    assert hp.warmup_steps == warmup
    expected = settings(dialect)
    assert {name: getattr(hp, name) for name in expected} == expected
    model, ids = Transformer(hp), tf.ones([1, 2], tf.int32)
    loss = cross_entropy(model.decode(ids, model.encode(ids)), ids)
    make_update(loss, model.hp, tf.train.get_or_create_global_step())
    assert {name: (value.shape, value.dtype) for name, value in imported.items()} == {
        variable.op.name: (
            tuple(variable.shape.as_list()),
            variable.dtype.base_dtype.as_numpy_dtype,
        )
        for variable in tf.global_variables()
    }
    assert imported["global_step"] == 3 and imported["beta2_power"] == np.float32(0.75)
    for seed, slot in enumerate(["", *convert.SLOTS]):
        for name, array in random_model(dialect, seed).items():
            expected = abs(array) if slot else array
            np.testing.assert_array_equal(imported[name + slot], expected)


def test_sinusoids_are_recognized():
    model = {
        name: array
        for name, array in random_model("tutorial").items()
        if "positional" not in name
    }
    arrays = as_original(model, "tutorial")
    assert convert.infer_settings("tutorial", arrays)["positions"] == "per_channel"
    assert import_arrays(arrays, "tutorial").arrays.keys() >= model.keys()


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_message_names_a_missing_variable(dialect):
    complete = convert.join_shards(as_original(random_model(dialect), dialect))
    for name in sorted(complete)[::11]:
        if not re.search("_pe/", name):  # without these, positions are sinusoids
            arrays = {other: complete[other] for other in complete if other != name}
            with pytest.raises(ValueError, match=re.escape(name.split("_25_8")[0])):
                import_arrays(arrays, dialect)


@pytest.mark.parametrize(
    "name, message",
    [
        (
            "encoder/extra",
            "encoder/extra: unknown variable of shape [3]; 1 would be left over",
        ),
        ("encoder/extra/Adam", "extra/Adam: unknown variable"),
        ("encoder/num_blocks_2/x", "num_blocks_2"),
    ],
)
def test_unknown_variables_are_refused(name, message):
    arrays = as_original(random_model("kyubyong"), "kyubyong")
    arrays[name] = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=re.escape(message)):
        import_arrays(arrays, "kyubyong")


def test_two_variables_that_would_have_one_name_are_refused(tmp_path):
    arrays = {"x/kernel": np.zeros(3), "x/kernel/ExponentialMovingAverage": np.ones(3)}
    checkpoint = write(arrays, tmp_path)
    assert sorted(convert.read(checkpoint)) == sorted(arrays)
    with pytest.raises(VariableNamesError, match="both be x/kernel$"):
        convert.read(checkpoint, [("/ExponentialMovingAverage$", "")])


def test_a_missing_or_narrow_shard_is_refused():
    arrays = as_original(random_model("tensor2tensor"), "tensor2tensor")
    table = "transformer/symbol_modality_25_8/shared/weights_"
    for shard, message in (
        (3, "weights_3: expected all shards"),
        (SHARDS - 1, "weights_: expected shape [25, 8]"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            import_arrays(
                {name: arrays[name] for name in arrays if name != table + str(shard)},
                "tensor2tensor",
            )
    with pytest.raises(ValueError, match="of the same width"):
        import_arrays(
            dict(arrays, **{table + "0": arrays[table + "0"][:, 1:]}), "tensor2tensor"
        )
    with pytest.raises(ValueError, match="expected row 9, .*got 4 rows"):
        import_arrays(arrays, "tensor2tensor", space=9)


def test_relative_positions_are_recognized():
    relative = {"max_relative_position": 3}
    model = random_model("tensor2tensor", **relative)
    arrays = as_original(model, "tensor2tensor")
    assert convert.infer_settings(
        "tensor2tensor", convert.join_shards(arrays)
    ) == settings("tensor2tensor", **relative)
    result = import_arrays(arrays, "tensor2tensor")
    tables = [name for name in model if "/relative/" in name]
    assert len(tables) == 2 * 2 * SIZES["num_blocks"]  # keys, values; either stack
    for name in model:
        np.testing.assert_array_equal(result.arrays[name], model[name])


def test_widths_of_keys_and_values_are_recognized():
    """They are tensor2tensor's attention_key_channels and attention_value_channels."""
    widths = {"d_k": 3, "d_v": 5}
    model = random_model("tensor2tensor", **widths)
    arrays = as_original(model, "tensor2tensor")
    assert convert.infer_settings(
        "tensor2tensor", convert.join_shards(arrays), num_heads=2
    ) == settings("tensor2tensor", **widths)
    result = import_arrays(arrays, "tensor2tensor")
    for name in model:
        np.testing.assert_array_equal(result.arrays[name], model[name])


@pytest.mark.parametrize("sizes", [(VOCAB, VOCAB + 4), (VOCAB + 4, VOCAB)])
def test_sizes_identify_two_tables_of_tensor2tensor(sizes):
    vocabularies = dict(
        source_vocab_size=sizes[0], target_vocab_size=sizes[1], joint_vocab=False
    )
    model = random_model("tensor2tensor", **vocabularies)
    arrays = as_original(model, "tensor2tensor")
    assert convert.infer_settings(
        "tensor2tensor", convert.join_shards(arrays), sizes
    ) == settings("tensor2tensor", **vocabularies)
    result = import_arrays(arrays, "tensor2tensor", vocab_sizes=sizes)
    for name in model:
        np.testing.assert_array_equal(result.arrays[name], model[name])
    for wrong_sizes in ((), (VOCAB, VOCAB), (VOCAB, VOCAB + 3)):
        with pytest.raises(VocabulariesAmbiguous, match="expected two of "):
            import_arrays(arrays, "tensor2tensor", vocab_sizes=wrong_sizes)


def test_embeddings_apart_from_the_output_layer_are_refused():
    arrays = as_original(random_model("tensor2tensor"), "tensor2tensor")
    arrays = {name.replace("/shared/", "/softmax/"): arrays[name] for name in arrays}
    with pytest.raises(ValueError, match="softmax/weights_.*does not share"):
        import_arrays(arrays, "tensor2tensor")


def test_the_slots_of_adafactor_are_left_behind():
    model = random_model("tensor2tensor")
    arrays = as_original(model, "tensor2tensor")
    slots = {
        f"{name}/Adafactor{number}": np.ones(array.shape[:1], np.float32)
        for name, array in arrays.items()
        for number in ("", "_1")
    }
    result = import_arrays(dict(arrays, **slots), "tensor2tensor")
    assert not result.has_moments
    for name in model:
        np.testing.assert_array_equal(result.arrays[name], model[name])
    unknown = "transformer/body/extra/Adafactor"
    with pytest.raises(ValueError, match=unknown + ": unknown variable .*left over"):
        import_arrays(
            dict(arrays, **{unknown: np.ones([3], np.float32)}), "tensor2tensor"
        )


@pytest.mark.parametrize("dialect", ["kyubyong", "tensor2tensor"])
def test_a_huge_block_number_is_refused(dialect):
    """A list of a billion names would not fit into the memory."""
    number = 10**30
    arrays = as_original(random_model(dialect), dialect)
    block = re.compile(r"(?<=encoder/)(num_blocks|layer)_1(?=/)")
    far = next(name for name in sorted(arrays) if block.search(name))
    arrays[block.sub(rf"\g<1>_{number}", far)] = arrays.pop(far)
    with pytest.raises(ValueError, match=f"number {number}") as error:
        convert.infer_settings(source_of(dialect), arrays)
    assert "\n" not in str(error.value)
