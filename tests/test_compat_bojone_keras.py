"""Code written for the Keras layers of bojone/attention, of its several versions."""

import fixtures
import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf

if tf.__version__.startswith("1."):
    pytest.skip(
        "transformer.compat.bojone.layers needs Keras 3, which needs TensorFlow 2",
        allow_module_level=True,
    )

import keras  # noqa: E402
import test_keras_layers  # noqa: E402
from test_keras_layers import CLOSE, graph, random_floats  # noqa: E402,F401

from transformer import keras_layers  # noqa: E402
from transformer.compat.bojone import layers  # noqa: E402
from transformer.compat.bojone.layers import Attention, Position_Embedding  # noqa: E402

LAYERS = {
    "Attention",
    "AtrousSelfAttention",
    "LocalSelfAttention",
    "Position_Embedding",
    "SelfAttention",
    "SinCosPositionEmbedding",
    "SparseSelfAttention",
    "TrainablePositionEmbedding",
}


def sources():
    """Queries, keys and values."""
    return [random_floats(2, 4, 5), random_floats(2, 6, 7), random_floats(2, 6, 3)]


def with_weights_of(layer, other, inputs):
    """Return the output of a layer with the weights of another."""
    layer(inputs)
    layer.set_weights(other.get_weights())
    return np.asarray(layer(inputs))


# Recorded numbers


@fixtures.over(
    "C",
    function="attention_keras.*",
    where=lambda meta: (
        meta["kwargs"]["layer"] == "Attention" and not test_keras_layers.is_broken(meta)
    ),
)
def test_recorded(name, monkeypatch):
    """As in test_keras_layers; the other layers are those of `keras_layers`."""
    monkeypatch.setattr(test_keras_layers, "keras_layers", layers)
    test_keras_layers.test_recorded_layer(name)


@fixtures.over("C", function="attention_tf.Position_Embedding")
def test_recorded_positions(name):
    """Those of `attention_tf` are those of the earlier versions here."""
    case = fixtures.load(name)
    positions, size = case["out/out"], case["out/out"].shape[-1]
    x = random_floats(*positions.shape[:2], size)
    fixtures.assert_close(Position_Embedding()(x), x + positions)
    output = Position_Embedding(size, "concat")(x[:, :, :3])
    fixtures.assert_close(output, np.concatenate([positions, x[:, :, :3]], -1))


# Arguments of earlier versions


@pytest.mark.parametrize("mask_right", [False, True])
def test_earlier_arguments_give_the_same_layer(mask_right):
    layer = keras_layers.Attention(3, 4, mask_right=mask_right)
    output = np.asarray(layer(sources()))
    for same in (
        Attention(3, 4, None, mask_right),
        Attention(heads=3, size_per_head=4, mask_right=mask_right),
        Attention(nb_head=3, size_per_head=4, mask_right=mask_right),
        Attention(3, 4, mask_right),  # earlier, there was no key_size
    ):
        np.testing.assert_array_equal(with_weights_of(same, layer, sources()), output)
        assert {**same.get_config(), "name": ""} == {**layer.get_config(), "name": ""}


def test_lengths_are_masks():
    """Earlier, inputs were [Q, K, V, Q_len, V_len]; now [q, k, v, v_mask, q_mask]."""
    queries, values = np.array([[4], [1]]), np.array([[5], [2]])
    is_token = [np.arange(6) < values, np.arange(4) < queries]
    layer = Attention(3, 4)
    masks = [np.float32(mask)[..., None] for mask in is_token]
    output = np.asarray(layer(sources() + masks))
    assert not output[1, 1:].any() and output[1, 0].all()
    for extra in (
        [queries, values],
        [np.float32(queries), np.float32(values)],
        [np.float32(mask) for mask in is_token],  # [N, T]
    ):
        np.testing.assert_array_equal(layer(sources() + extra), output)
    length = keras.Input([1], dtype="int32")
    q, k, v = (keras.Input([None, x.shape[-1]]) for x in sources())
    other_length = keras.Input([1], dtype="int32")
    inputs = [q, k, v, length, other_length]
    model = keras.Model(inputs, layer(inputs))
    outputs = model(sources() + [queries, values])
    np.testing.assert_allclose(outputs, output, **CLOSE)


def test_lengths_are_not_rounded_to_half_precision():
    x = random_floats(1, 302, 4)
    length = np.array([[301]], np.float32)  # as bfloat16: 300 or 302
    output = Attention(1, 2, dtype="mixed_bfloat16")([x, x, x, length, length])
    has_output = tf.reduce_any(tf.not_equal(output, 0), -1)
    np.testing.assert_array_equal(has_output, np.arange(302)[None] < 301)


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "concat"])
def test_position_embedding(mode, size):
    x = random_floats(2, 5, 6)
    layer = Position_Embedding(size, mode)
    output = layer(x)
    width = 6 if mode == "sum" else size or 6  # a sum has the width of the input
    table = oracle.sinusoids(5, width)
    table = np.concatenate([table[:, 1::2], table[:, 0::2]], -1)[None].repeat(2, 0)
    expected = x + table if mode == "sum" else np.concatenate([table, x], -1)
    np.testing.assert_allclose(output, expected, **CLOSE)
    assert layer.compute_output_shape(x.shape) == output.shape == expected.shape
    again = Position_Embedding.from_config(layer.get_config())
    np.testing.assert_array_equal(again(x), output)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Attention(8), "to be heads or nb_head, and size_per_head"),
        (lambda: Attention(8, 16, nb_head=8), "'heads': 8, 'nb_head': 8"),
        (lambda: Position_Embedding(mode="add"), "expected mode to be 'sum'"),
    ],
)
def test_errors_say_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Imports


@pytest.mark.parametrize("module", ["bojone.layers", "bojone_keras"])
def test_a_star_import_brings_their_layers_and_nothing_else(module):
    names = {}
    exec(f"from transformer.compat.{module} import *", names)
    assert set(names) - {"__builtins__"} == LAYERS
    for name in LAYERS - {"Attention", "Position_Embedding"}:
        assert names[name] is getattr(keras_layers, name)


# As part of a model


def sentiment(lengths=False):
    """A classifier as the users of earlier versions write it."""
    ids = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(10, 6)(ids)
    x = Position_Embedding()(x)
    if lengths:
        length = keras.Input([1], dtype="int32")
        x = Attention(2, 4)([x, x, x, length, length])
    else:
        x = Attention(nb_head=2, size_per_head=4)([x, x, x])
    x = keras.layers.GlobalAveragePooling1D()(x)
    outputs = keras.layers.Dense(1, activation="sigmoid")(x)
    return keras.Model([ids, length] if lengths else ids, outputs)


def test_weights_saved_by_an_old_keras_are_loaded(tmp_path):
    """By their order: WQ, WK, WV. The file is laid out as Keras 2.2.4 does."""
    h5py = pytest.importorskip("h5py")
    weights = {
        "embedding_1": {"embeddings": (10, 6)},
        "position__embedding_1": {},
        "attention_1": {"WQ": (6, 8), "WK": (6, 8), "WV": (6, 8)},
        "dense_1": {"kernel": (8, 1), "bias": (1,)},
    }
    saved = []
    with h5py.File(str(tmp_path / "old.h5"), "w") as file:
        file.attrs["layer_names"] = [layer.encode() for layer in weights]
        file.attrs["keras_version"], file.attrs["backend"] = b"2.2.4", b"tensorflow"
        for layer, shapes in weights.items():
            group = file.create_group(layer)
            names = [f"{layer}/{name}:0" for name in shapes]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, shape in zip(names, shapes.values()):
                saved.append(random_floats(*shape, seed=len(saved)))
                group[name] = saved[-1]
    model = sentiment()
    model.load_weights(tmp_path / "old.h5")
    for array, expected in zip(model.get_weights(), saved):
        np.testing.assert_array_equal(array, expected)
    assert len(model.get_weights()) == len(saved)


@pytest.mark.parametrize("lengths", [False, True])
def test_save_and_load(lengths, tmp_path):
    """Each of the two classes called `Attention` is loaded as itself."""
    model = sentiment(lengths)
    ids = np.random.RandomState(0).randint(0, 10, [3, 7])
    inputs = [ids, np.array([[7], [3], [1]])] if lengths else ids
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model(inputs), loaded(inputs))
    assert {type(layer) for layer in loaded.layers} >= {Attention, Position_Embedding}
    for kind, name in (
        (Attention, "bojone>Attention"),
        (keras_layers.Attention, "transformer>Attention"),
    ):
        config = keras.saving.serialize_keras_object(kind(2, 3))
        assert config["registered_name"] == name
        assert type(keras.saving.deserialize_keras_object(config)) is kind
