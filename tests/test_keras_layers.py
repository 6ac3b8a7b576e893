"""The Keras layers: against lists of visible keys, and against recorded numbers."""

import fixtures
import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf

if tf.__version__.startswith("1."):
    pytest.skip(
        "transformer.keras_layers needs Keras 3, which needs TensorFlow 2",
        allow_module_level=True,
    )

import keras  # noqa: E402
from tensorflow.python.eager import context  # noqa: E402

from transformer import keras_layers  # noqa: E402
from transformer.compat.bojone.keras_base import as_list  # noqa: E402
from transformer.keras_layers import (  # noqa: E402
    AtrousSelfAttention,
    Attention,
    LocalSelfAttention,
    SelfAttention,
    SinCosPositionEmbedding,
    SparseSelfAttention,
    TrainablePositionEmbedding,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64
SELF = [
    (SelfAttention, {}),
    (LocalSelfAttention, {"neighbors": 1}),
    (LocalSelfAttention, {"neighbors": 2, "rate": 2}),
    (AtrousSelfAttention, {"rate": 2}),
    (SparseSelfAttention, {"rate": 3}),
]


def over(layers):
    """Decorator: run a test for each pair of a layer and its arguments."""
    names = [
        f"{kind.__name__}_{'_'.join(map(str, kwargs.values()))}".rstrip("_")
        for kind, kwargs in layers
    ]
    return pytest.mark.parametrize("kind, kwargs", layers, ids=names)


over_self = over(SELF)
over_directions = pytest.mark.parametrize(
    "mask_right", [False, True], ids=["both_sides", "left"]
)


@pytest.fixture(autouse=True)
def graph():
    """Keras works eagerly; this replaces the graph of `conftest`."""
    with context.eager_mode():
        keras.utils.set_random_seed(0)
        yield


def random_floats(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


# --- The oracle: the keys that each query sees, as lists ------------------------------


def visible_keys(layer, i, num_keys, kwargs):
    """List the key positions that query i sees; some lie beyond the ends."""
    right, rate = kwargs.get("mask_right", False), kwargs.get("rate", 1)
    neighbors = rate - 1 if layer == "SparseSelfAttention" else kwargs.get("neighbors")
    if layer in ("Attention", "SelfAttention"):
        return [
            j
            for j in range(num_keys)
            if right is False or (j <= i if right is True else right[i][j])
        ]
    keys = []
    if layer in ("AtrousSelfAttention", "SparseSelfAttention"):
        keys += range(i % rate, num_keys - num_keys % rate + rate, rate)
    if layer in ("LocalSelfAttention", "SparseSelfAttention"):
        keys += [i + step * rate for step in range(-neighbors, neighbors + 1)]
    return [j for j in keys if not (right and j > i)]


def expected(layer, kwargs, sources, kernels, key_mask=None, query_mask=None):
    """Equation 1 for one query at a time: sources [N, T, width] → [N, Tq, H * size]."""
    heads = kwargs["heads"]
    Q, K, V = (
        np.stack(np.split(np.float64(x) @ kernel, heads, axis=-1), 1)
        for x, kernel in zip(sources, kernels)
    )  # [N, H, T, size]
    output = np.zeros(Q.shape[:3] + V.shape[3:])
    hide_edges = key_mask is not None or not kwargs.get("zero_edges", True)
    for n, h, i in np.ndindex(*Q.shape[:3]):
        keys, values, positions = [], [], range(K.shape[2])
        slots = visible_keys(layer, i, K.shape[2], kwargs)
        if key_mask is not None:
            slots = [j for j in slots if j in positions and key_mask[n, j]]
        for j in slots or positions:
            if j in positions:
                keys.append(K[n, h, j])
                values.append(V[n, h, j])
            elif not hide_edges:
                keys.append(np.zeros(K.shape[3]))
                values.append(np.zeros(V.shape[3]))
        scores = np.array(keys) @ Q[n, h, i] / np.sqrt(Q.shape[3])
        output[n, h, i] = oracle.softmax(scores) @ np.array(values)
    if query_mask is not None:
        output *= query_mask[:, None, :, None]
    return np.concatenate(list(output.transpose(1, 0, 2, 3)), -1)


def length_mask(lengths, width):
    return np.arange(width) < np.array(lengths)[:, None]


@over_directions
@pytest.mark.parametrize("key_size", [None, 3], ids=["same_size", "key_size"])
def test_attention(mask_right, key_size):
    sources = [random_floats(2, 4, 5), random_floats(2, 6, 7), random_floats(2, 6, 3)]
    layer = Attention(3, 4, key_size, mask_right)
    output = layer(sources)
    kernels = layer.get_weights()
    size = 3 * (key_size or 4)
    assert [x.shape for x in kernels] == [(5, size), (7, size), (3, 12)]

    def expected_output(*masks):
        kwargs = {"heads": 3, "mask_right": mask_right}
        return expected("Attention", kwargs, sources, kernels, *masks)

    np.testing.assert_allclose(output, expected_output(), **CLOSE)
    keys, queries = length_mask([5, 2], 6), length_mask([4, 1], 4)
    inputs = sources + [np.float32(keys)[..., None], np.float32(queries)[..., None]]
    expected_padded = expected_output(keys, queries)
    np.testing.assert_allclose(layer(inputs), expected_padded, **CLOSE)
    for mask in ([queries, None, keys], [queries, keys, None]):
        np.testing.assert_allclose(layer(sources, mask=mask), expected_padded, **CLOSE)
    np.testing.assert_allclose(  # both kinds of masks: a key must be real in both
        layer(inputs, mask=[None, length_mask([2, 6], 6), None, None, None]),
        expected_output(length_mask([2, 2], 6), queries),
        **CLOSE,
    )


@over_self
@over_directions
@pytest.mark.parametrize("width", [1, 7], ids=lambda width: f"T{width}")
def test_self_attention(kind, kwargs, mask_right, width):
    x = random_floats(2, width, 5)
    kwargs = dict(kwargs, heads=2, size_per_head=4, key_size=3, mask_right=mask_right)
    layer = kind(**kwargs)
    output = layer(x)
    assert output.shape == layer.compute_output_shape(x.shape) == (2, width, 8)
    kernels = layer.get_weights()
    np.testing.assert_allclose(
        output, expected(kind.__name__, kwargs, [x] * 3, kernels), **CLOSE
    )

    mask = length_mask([width, (width + 1) // 2], width)
    expected_output = expected(kind.__name__, kwargs, [x] * 3, kernels, mask, mask)
    np.testing.assert_allclose(layer(x, mask=mask), expected_output, **CLOSE)
    np.testing.assert_allclose(
        layer([x, np.float32(mask)[..., None]]), expected_output, **CLOSE
    )


@over(SELF[1:])
def test_without_zero_edges_no_mask_is_a_mask_of_ones(kind, kwargs):
    x, kwargs = random_floats(2, 5, 4), dict(kwargs, heads=2, size_per_head=3)
    layer, plain = kind(zero_edges=False, **kwargs), kind(**kwargs)
    output, _ = layer(x), plain(x)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(output, plain(x, mask=length_mask([5, 5], 5)), **CLOSE)
    assert np.abs(output - plain(x)).max() > 1e-3
    np.testing.assert_allclose(
        output,
        expected(
            kind.__name__,
            dict(kwargs, zero_edges=False),
            [x] * 3,
            layer.get_weights(),
            length_mask([5, 5], 5),
        ),
        **CLOSE,
    )


# --- Positions ------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [None, [[2], [0]]], ids=["plain", "relative"])
@pytest.mark.parametrize("merge_mode", ["add", "concat"])
@pytest.mark.parametrize("kind", ["sinusoids", "trainable"])
def test_positions(kind, merge_mode, origin):
    width, v_dim = 6, 6 if merge_mode == "add" else 7
    x = random_floats(2, 5, width)
    if kind == "sinusoids":
        layer = SinCosPositionEmbedding(v_dim, merge_mode)
        table = oracle.sinusoids(9, v_dim)
    else:
        layer = TrainablePositionEmbedding(9, v_dim, merge_mode)
        table = random_floats(9, v_dim, seed=1)
    inputs = x if origin is None else [x, np.array(origin, np.float32)]
    assert layer(inputs).shape == layer.compute_output_shape(
        x.shape if origin is None else [x.shape, (2, 1)]
    )
    if kind == "trainable":
        assert not np.any(layer.get_weights()[0])
        layer.set_weights([table])
    positions = np.abs(
        np.arange(5) - (np.zeros([2, 1], int) if origin is None else np.array(origin))
    )
    expected_output = (
        x + table[positions]
        if merge_mode == "add"
        else np.concatenate([x, table[positions]], axis=-1)
    )
    np.testing.assert_allclose(layer(inputs), expected_output, **CLOSE)


# --- As part of a Keras model ---------------------------------------------------------


def classifier(layer, positions=None):
    """Ids [N, T] → a probability [N, 1], by way of a masked mean."""
    ids = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(10, 6, mask_zero=True)(ids)
    x = (positions or SinCosPositionEmbedding(6))(x)
    x = layer([x, x, x] if type(layer) is Attention else x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, keras.layers.Dense(1, activation="sigmoid")(x))


over_layers = over([(Attention, {"mask_right": True})] + SELF)


@over_layers
def test_the_mask_of_an_embedding_reaches_the_attention_and_the_pooling(kind, kwargs):
    model = classifier(kind(2, 4, **kwargs), TrainablePositionEmbedding(20, 6))
    ids = np.random.RandomState(0).randint(1, 10, [2, 5])
    padded = np.concatenate([ids, np.zeros([2, 6], int)], axis=1)
    np.testing.assert_allclose(model(padded), model(ids), **CLOSE)


@over_layers
def test_save_and_load(kind, kwargs, tmp_path):
    positions = TrainablePositionEmbedding(20, 6)
    model = classifier(kind(2, 4, key_size=3, **kwargs), positions)
    positions.set_weights([random_floats(20, 6)])
    ids = np.random.RandomState(0).randint(0, 10, [3, 7])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model(ids), loaded(ids))
    assert {type(layer) for layer in loaded.layers} >= {
        kind,
        TrainablePositionEmbedding,
    }


def test_save_and_load_positions_as_h5(tmp_path):
    """The .h5 reader of Keras takes "add" for its function of this name."""
    positions = TrainablePositionEmbedding(20, 6, "add")
    ids = keras.Input([None], dtype="int32")
    model = keras.Model(ids, positions(keras.layers.Embedding(10, 6)(ids)))
    positions.set_weights([random_floats(20, 6)])
    model.save(tmp_path / "model.h5")
    loaded = keras.models.load_model(tmp_path / "model.h5")
    ids = np.random.RandomState(0).randint(0, 10, [3, 7])
    np.testing.assert_array_equal(model(ids), loaded(ids))


@pytest.mark.parametrize("causal", [False, True], ids=["all_keys", "causal"])
@pytest.mark.parametrize("masked", [False, True], ids=["no_mask", "attention_mask"])
def test_a_call_has_the_arguments_of_keras(causal, masked):
    """Beside Keras's own layer, with the same kernels and no output projection."""
    queries, keys = random_floats(2, 4, 5), random_floats(2, 6, 5, seed=1)
    mask = np.random.RandomState(2).rand(2, 4, 6) < 0.7
    mask[:, :, 0] = True
    options = {
        "attention_mask": mask if masked else None,
        "use_causal_mask": causal,
        "return_attention_scores": True,
    }
    layer = Attention(2, 3)
    output, scores = layer([queries, keys, keys], **options)
    keras_layer = keras.layers.MultiHeadAttention(2, 3, use_bias=False, output_shape=6)
    keras_layer(queries, keys)
    kernels = [kernel.reshape(5, 2, 3) for kernel in layer.get_weights()]
    keras_layer.set_weights([*kernels, np.eye(6).reshape(2, 3, 6)])
    expected_output, expected_scores = keras_layer(queries, keys, **options)
    np.testing.assert_allclose(output, expected_output, **CLOSE)
    np.testing.assert_allclose(scores, expected_scores, **CLOSE)
    inputs = [keras.Input([4, 5]), keras.Input([6, 5])]
    symbolic = layer([*inputs, inputs[1]], return_attention_scores=True)
    assert [x.shape for x in symbolic] == [(None, 4, 6), (None, 2, 4, 6)]


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_a_keras_mask_and_the_same_attention_mask(causal):
    """They give the same, for padded queries, too."""
    ids = np.array([[3, 1, 2, 0, 0], [2, 2, 3, 1, 1], [1, 0, 0, 0, 0]])
    embedded = keras.layers.Embedding(4, 6, mask_zero=True)(ids)
    is_token = ids != 0
    layer = SelfAttention(heads=2, size_per_head=3)
    expected = layer(embedded, use_causal_mask=causal)
    actual = layer(
        keras.ops.convert_to_numpy(embedded),
        attention_mask=is_token[:, :, None] & is_token[:, None, :],
        use_causal_mask=causal,
    )
    np.testing.assert_allclose(actual, expected, **CLOSE)
    assert not np.any(actual.numpy()[~is_token])


def test_padding_stays_hidden_beside_an_attention_mask():
    """In this case, Keras passes the mask of an embedding by another name."""
    embedded = keras.layers.Embedding(10, 8, mask_zero=True)(np.array([[5, 6, 0, 0]]))
    layer = SelfAttention(2, 4)
    all_visible = np.ones([1, 4, 4], bool)
    np.testing.assert_array_equal(
        layer(embedded, attention_mask=all_visible), layer(embedded)
    )


def pairs_mask():
    """A padding mask [N, T], and the masks of pairs [N, T, T] that say the same."""
    mask = length_mask([5, 2], 5)
    return mask, np.repeat(mask[:, None], 5, 1)


@pytest.mark.parametrize(
    "form",
    [
        lambda mask: mask,
        lambda mask: np.float32(mask),
        lambda mask: np.int32(mask) * 7,  # such as ids
        lambda mask: mask[..., None],
        tf.constant,
    ],
)
def test_a_padding_mask_has_one_meaning_in_all_forms(form):
    x, (mask, _) = random_floats(2, 5, 6), pairs_mask()
    for kind, kwargs in SELF:
        layer = kind(2, 4, **kwargs)
        expected = layer(x, mask=mask)
        np.testing.assert_array_equal(layer(x, mask=form(mask)), expected)
        np.testing.assert_array_equal(layer([x, form(mask)]), expected)
    layer = Attention(2, 4)
    expected = layer([x] * 3, mask=[mask, mask])  # queries and values
    np.testing.assert_array_equal(layer([x] * 3, mask=[form(mask)] * 2), expected)


@pytest.mark.parametrize(
    "form",
    [
        lambda pairs: pairs,
        lambda pairs: np.float32(pairs),
        lambda pairs: pairs[:, None],
        lambda pairs: np.repeat(pairs[:, None], 2, 1),
        lambda pairs: pairs[:, :1],
        lambda pairs: pairs[:, None, :1],
    ],
)
def test_an_attention_mask_has_one_meaning_in_all_forms(form):
    x, (mask, pairs) = random_floats(2, 5, 6), pairs_mask()
    layer = SelfAttention(2, 4)
    padded = layer(x, mask=mask)
    output = layer(x, mask=mask, attention_mask=form(pairs))
    np.testing.assert_array_equal(output, padded)
    tokens = np.asarray(layer(x, attention_mask=form(pairs)))[mask]
    np.testing.assert_allclose(tokens, np.asarray(padded)[mask], **CLOSE)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda mask, pairs: {"mask": pairs}, r"\[N, T\] or \[N, T, 1\], got"),
        (lambda mask, pairs: {"mask": mask[:, None]}, r"or \[N, T, 1\], got"),
        (lambda mask, pairs: {"mask": mask.sum(1)}, r"\[N, T\] or .* got \[2\]"),
        (lambda mask, pairs: {"mask": mask[:, :4]}, r"\[N, T\] = \[2, 5\], got"),
        (lambda mask, pairs: {"mask": mask.tolist()}, "number of masks .* got 2"),
        (lambda mask, pairs: {"mask": (mask - 1) * 1e9}, "got -1e.09; what is added"),
        (lambda mask, pairs: {"attention_mask": mask}, r"\[Tq, Tk\] = \[5, 5\], got"),
        (lambda mask, pairs: {"attention_mask": mask[0]}, r"\[N, Tq, Tk\] or .* got"),
        (
            lambda mask, pairs: {"attention_mask": mask[..., None]},
            r"got \[2, 5, 1\]; a padding mask \[N, T\] is given as mask",
        ),
        (
            lambda mask, pairs: {"attention_mask": np.ones([3, 5, 5], bool)},
            r"\[N, Tq, Tk\] = \[2, 5, 5\], got \[3, 5, 5\]",
        ),
        (
            lambda mask, pairs: {"attention_mask": np.where(pairs, 0, -np.inf)},
            "got -inf; what is added to logits is a bias",
        ),
    ],
)
def test_a_mask_of_another_form_is_refused(arguments, message):
    x = random_floats(2, 5, 6)
    with pytest.raises(ValueError, match=message):
        SelfAttention(2, 4)(x, **arguments(*pairs_mask()))


def test_one_mask_is_not_enough_for_queries_and_keys():
    x, (mask, _) = random_floats(2, 5, 6), pairs_mask()
    with pytest.raises(ValueError, match="number of masks to be 2 or 3.* got 1"):
        Attention(2, 4)([x, x, x], mask=mask)


DROPPING = {
    "add": lambda x, y: x + y,
    "get_item": lambda x, y: x[:, 1:],
    "relu": lambda x, y: keras.layers.Dense(6)(keras.ops.relu(x)),
}


@pytest.mark.parametrize("name", DROPPING)
def test_an_operation_that_drops_the_mask_is_named(name, recwarn):
    x = keras.layers.Embedding(9, 6, mask_zero=True)(keras.Input([None], dtype="int32"))
    y = SelfAttention(2, 3)(x)
    SelfAttention(2, 3)(keras.layers.Add()([x, y]))
    Attention(2, 3)([x, y, keras.layers.Dense(4)(y)])
    mask = keras.Input([None], dtype="bool")
    dropped = DROPPING[name](x, y)
    SelfAttention(2, 3)(dropped, mask=mask)
    SelfAttention(2, 3)([dropped, mask])
    SelfAttention(2, 3)(keras.ops.relu(keras.Input([5, 6])))
    assert not recwarn.list
    for layer, inputs in ((SelfAttention, dropped), (Attention, [x, dropped, dropped])):
        with pytest.warns(UserWarning, match=f"which {name}.* dropped: x . y, slices"):
            layer(2, 3)(inputs)


def test_a_model_with_masks_as_inputs_is_saved_and_loaded(tmp_path):
    ids, pairs = keras.Input([None], dtype="int32"), keras.Input([None, None])
    x = keras.layers.Embedding(10, 6, mask_zero=True)(ids)
    x = SelfAttention(2, 3)(x, attention_mask=pairs)
    mask = keras.Input([None], dtype="bool")
    model = keras.Model([ids, pairs, mask], SelfAttention(2, 3)(x, mask=mask))
    is_token, all_pairs = pairs_mask()
    inputs = [np.int32(is_token), np.float32(np.tril(all_pairs)), is_token]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model(inputs), loaded(inputs))


@over(SELF[1:])
def test_restricted_attention_takes_no_further_mask(kind, kwargs):
    for x in (random_floats(2, 5, 6), keras.Input([5, 6])):
        for option in ("use_causal_mask", "return_attention_scores"):
            with pytest.raises(ValueError, match="use mask_right=True"):
                kind(2, 4, **kwargs)(x, **{option: True})


@over_self
def test_kernels_and_dropout_are_set_as_in_keras(kind, kwargs):
    x = random_floats(2, 5, 6)
    layer = kind(
        2,
        4,
        dropout=0.5,
        kernel_initializer="ones",
        kernel_regularizer=keras.regularizers.L2(0.1),
        **kwargs,
    )
    output = np.asarray(layer(x))
    assert all((kernel == 1).all() for kernel in layer.get_weights())
    np.testing.assert_allclose(sum(layer.losses), 0.1 * 3 * 6 * 8, rtol=1e-5)
    assert (np.asarray(layer(x, training=True)) != output).any()
    plain = kind(2, 4, **kwargs)
    plain(x)
    plain.set_weights(layer.get_weights())
    np.testing.assert_array_equal(np.asarray(plain(x, training=True)), output)
    copy = kind.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "compiled"])
def test_more_positions_than_there_are_vectors(jit_compile):
    """The length is known only at run time; compiled code would repeat a vector."""
    layer = TrainablePositionEmbedding(3, 8)
    run = tf.function(
        lambda *inputs: layer(list(inputs)),
        jit_compile=jit_compile,
        reduce_retracing=True,
    ).get_concrete_function(tf.TensorSpec([None, None, 8]))
    assert run(tf.zeros([1, 3, 8])).shape == (1, 3, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 3|size.0. in"):
        run(tf.zeros([1, 5, 8]))
    x = keras.Input([None, 8])
    model = keras.Model(x, layer(x))
    model.compile(jit_compile=jit_compile)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        model.predict(np.zeros([1, 5, 8]), verbose=0)


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
@over_self
def test_other_types_give_no_nan(kind, kwargs, policy):
    layer = kind(2, 4, dtype=policy, **kwargs)
    x = random_floats(2, 5, 6)
    output = layer(x, mask=length_mask([5, 0], 5))
    assert output.dtype == layer.compute_dtype
    kernels = [np.float64(kernel) for kernel in layer.get_weights()]
    expected_output = expected(
        kind.__name__,
        dict(kwargs, heads=2),
        [x] * 3,
        kernels,
        length_mask([5, 0], 5),
        length_mask([5, 0], 5),
    )
    np.testing.assert_allclose(
        np.asarray(output, np.float64), expected_output, atol=0.05
    )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_origins_are_not_rounded_to_half_precision(policy):
    x = np.zeros([1, 4, 6], np.float32)
    inputs = [x, np.array([[4097]], np.float32)]
    output = SinCosPositionEmbedding(6, dtype=policy)(inputs)
    assert output.dtype == policy[6:]
    expected = SinCosPositionEmbedding(6)(inputs)
    np.testing.assert_allclose(tf.cast(output, tf.float32), expected, atol=0.01)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: Attention(2, 3, mask_right=[[0, -1e9], [0, 0]]),
            "expected mask_right to be .* a matrix of ones and zeros, got",
        ),
        (
            lambda: SelfAttention(2, 3, mask_right=np.eye(3))(np.ones([1, 4, 6])),
            r"mask_right: expected \[Tq, Tk\] = \[4, 4\], got \[3, 3\]",
        ),
        (
            lambda: Attention(2, 3, mask_right=None),
            "Attention: expected mask_right to be .*, got None",
        ),
        (
            lambda: SinCosPositionEmbedding(4, "sum"),
            "to be 'add' or 'concat', got 'sum'",
        ),
        (
            lambda: SinCosPositionEmbedding(4)(np.ones([1, 2, 3])),
            "expected v_dim to be 3, .* got 4",
        ),
        (lambda: SelfAttention(0, 3), r"to be 1 or more each, got \(0, 3, 3\)"),
        (
            lambda: SelfAttention(2, 3)(keras.Input([5])),
            r"expected inputs to be a sequence \[N, T, width\].*, got \[\(None, 5\)\]",
        ),
    ],
)
def test_errors_say_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- Recorded numbers -----------------------------------------------------------------

# In the original, `mask_right=False` makes these attend uniformly.
BROKEN = ("Attention", "SelfAttention", "LocalSelfAttention", "AtrousSelfAttention")


def recorded_mask_right(kwargs):
    """Return the recorded `mask_right`: False, True, a matrix, or "ones"."""
    right = kwargs.get("mask_right", False)
    if isinstance(right, str):
        return "ones" if "ones" in right else right == "True"
    return right


def is_broken(meta):
    kwargs = meta["kwargs"]
    return kwargs["layer"] in BROKEN and recorded_mask_right(kwargs) is False


def recorded_layer(case, **changes):
    """(The layer with the recorded weights, its inputs by name, its variables)."""
    kwargs = dict(case["meta"]["kwargs"], **changes)
    kind = getattr(keras_layers, kwargs.pop("layer"))
    inputs = {
        name: tf.constant(case["in/" + name])
        for name in ("x", "q", "k", "v", "v_mask", "q_mask", "x_mask", "r")
        if "in/" + name in case
    }
    layer = kind(**kwargs)
    layer(arguments(inputs))
    order = case["meta"]["weight_order"]
    layer.set_weights([case["var/" + name] for name in order])
    return layer, inputs, dict(zip(order, layer.weights))


def arguments(inputs):
    values = list(inputs.values())
    return values if len(values) > 1 else values[0]


def check_recorded(case, **changes):
    layer, inputs, variables = recorded_layer(case, **changes)
    tensors = {"grad/" + name: variable.value for name, variable in variables.items()}
    tensors.update({"gradin/" + name: x for name, x in inputs.items()})
    tensors = {
        key: value
        for key, value in tensors.items()
        if key in case and "mask" not in key
    }
    with tf.GradientTape() as tape:
        tape.watch(list(inputs.values()))
        output = layer(arguments(inputs))
        cost = tf.reduce_sum(output * case["in/dout"])
    fixtures.assert_close(output, case["out/out"], "out/out")
    assert set(tensors) == {
        key for key in case if key.startswith("grad") and "mask" not in key
    }
    for key, value in zip(tensors, tape.gradient(cost, list(tensors.values()))):
        fixtures.assert_close(tf.convert_to_tensor(value), case[key], key)


@fixtures.over("C", function="attention_keras.*", where=lambda m: not is_broken(m))
def test_recorded_layer(name):
    case = fixtures.load(name)
    kwargs = case["meta"]["kwargs"]
    right = recorded_mask_right(kwargs)
    if right != "ones":
        return check_recorded(
            case, **({"mask_right": right} if "mask_right" in kwargs else {})
        )
    check_recorded(case, mask_right=False)
    check_recorded(case, mask_right=np.ones(case["out/attn"].shape[-2:]).tolist())


def test_tensors_of_keras_2_are_refused():
    tensor = type("KerasTensor", (), {"__module__": "tf_keras.src.engine.keras_tensor"})
    with pytest.raises(TypeError, match="expected tensors of Keras 3, got those of tf"):
        as_list([tensor()])
