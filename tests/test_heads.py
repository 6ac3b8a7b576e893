"""viewer/heads.py: what an attention head computes, and a model without it."""

import shutil

import numpy as np
import oracle
import pytest
from javascript import needs_node, run_node
from slow import slow_except
from test_page_model import (
    MAKE_ENGINE,
    assert_close,
    encode_base64,
    make_logdir,
    open_translator,
    read_kernels,
)

from transformer import hparams
from transformer.exports import weights
from transformer.logdir import checkpoints, manifests
from transformer.runtime.errors import EngineError, SettingsError
from transformer.viewer.heads import (
    HeadName,
    ablate,
    ablate_each,
    ablation_to_json,
    check_heads,
    inspect_head,
)
from transformer.viewer.inspection import KINDS, inspect_line

pytestmark = pytest.mark.usefixtures("one_thread_only")

CROSS = HeadName("cross", 1, 0)
FIRST = HeadName("cross", 0, 0)


def read_variables(logdir):
    [checkpoint, *_] = manifests.list_candidates(logdir)
    variables = checkpoints.read_variables(checkpoint)
    return {name: np.float64(array) for name, array in variables.items()}


def list_heads(hp):
    return [
        HeadName(kind, layer, head)
        for kind, (stack, _) in KINDS.items()
        for layer in range(getattr(hp, f"{stack}_blocks"))
        for head in range(hp.num_heads)
    ]


class Recorded:
    """The model in NumPy, which records its heads and the sums of its sub-layers."""

    def __init__(self, monkeypatch, hp, variables, source, target):
        self.variables = variables
        self.heads, self.sums = [], []
        attention, add_and_norm = oracle.attention, oracle.add_and_norm

        def record_head(q, k, v, allowed):
            outputs, maps = attention(q, k, v, allowed)
            self.heads.append((q[0], k[0], v[0], outputs[0]))
            return outputs, maps

        def record_sum(x, sublayer, variables, scope, epsilon=1e-6):
            self.sums.append((scope, sublayer[0], (x + sublayer)[0]))
            return add_and_norm(x, sublayer, variables, scope, epsilon)

        monkeypatch.setattr(oracle, "attention", record_head)
        monkeypatch.setattr(oracle, "add_and_norm", record_sum)
        source, target_in = np.array([[*source, 3]]), np.array([[2, *target]])
        logits = oracle.transformer(source, target_in, variables, hp.num_heads)
        self.logits = logits[0]
        _, self.table = oracle.tables(variables)
        self.first = oracle.embed_with_positions(target_in, self.table)[0]
        order = [f"encoder/block_{i}/self_attention" for i in range(hp.encoder_blocks)]
        for i in range(hp.decoder_blocks):
            order += [f"decoder/block_{i}/{x}_attention" for x in ("self", "cross")]
        names = [(scope, head) for scope in order for head in range(hp.num_heads)]
        self.heads = dict(zip(names, self.heads))

    def logits_without(self, removed):
        """The logits if heads add nothing, and all else stays as it was computed.

        The means and deviations of the normalizations stay, too.
        """
        x = self.first
        for scope, sublayer, whole in self.sums:
            if scope.startswith("encoder"):
                continue
            for name, head in removed:
                if name == scope:
                    *_, outputs = self.heads[name, head]
                    size = outputs.shape[1]
                    rows = slice(head * size, (head + 1) * size)
                    kernel = self.variables[f"{scope}/o/kernel"]
                    sublayer = sublayer - outputs @ kernel[rows]
            total = x + sublayer
            gamma, beta = (self.variables[f"{scope}/ln/{x}"] for x in ("gamma", "beta"))
            variance = whole.var(-1, keepdims=True)
            centred = total - total.mean(-1, keepdims=True)
            x = gamma * centred / np.sqrt(variance + 1e-6) + beta
        return x @ self.table.T


@pytest.fixture(
    scope="module",
    params=slow_except(("paper", "kyubyong_legacy", "tensor2tensor"), weights.DIALECTS),
)
def model(request, digits, tmp_path_factory):
    """(a Translator of a model with random variables, its log directory)."""
    folder = tmp_path_factory.mktemp("heads")
    logdir = make_logdir(
        digits,
        folder / "logs",
        dialect=request.param,
        joint_vocab=request.param in ("paper", "kyubyong"),
    )
    with open_translator(logdir) as translator:
        yield translator, logdir


only_paper = pytest.mark.parametrize("model", ["paper"], indirect=True)


@only_paper
def test_a_head_has_the_numbers_of_the_equations(model, lines, monkeypatch):
    line, target = lines[0], [5, 6, 7, 8]
    translator, logdir = model
    hp = translator.hp
    [source] = translator.encode([line])
    variables = read_variables(logdir)
    expected = Recorded(monkeypatch, hp, variables, source, target)
    shares = 0.0
    for name in list_heads(hp):
        head = inspect_head(translator, line, name, target)
        q, k, v, _ = expected.heads[name.scope, name.head]
        for actual, correct in ((head.queries, q), (head.keys, k), (head.values, v)):
            np.testing.assert_allclose(actual, correct, atol=1e-4)
        if name.kind == "encoder":
            assert head.alternatives == []
            continue
        without = expected.logits_without([(name.scope, name.head)])
        pieces = np.array([[x.piece for x in row] for row in head.alternatives])
        share = np.array([[x.share for x in row] for row in head.alternatives])
        logits = np.array([[x.logit for x in row] for row in head.alternatives])
        rows = np.arange(len(pieces))[:, None]
        correct = expected.logits[rows, pieces]
        np.testing.assert_allclose(logits, correct, atol=1e-4)
        np.testing.assert_allclose(share, correct - without[rows, pieces], atol=1e-4)
        shares += share
    # The shares of all heads, and the rest, are the whole logits.
    rest = expected.logits_without(list(expected.heads))[rows, pieces]
    np.testing.assert_allclose(shares + rest, logits, atol=1e-4)


def test_a_head_that_is_off_has_no_weights(model, lines, tmp_path):
    """Off: as if the variables that only these heads use were zero."""
    translator, logdir = model
    line, target = lines[1], [5, 6, 7]
    off = [HeadName("encoder", 0, 1), CROSS, HeadName("decoder", 0, 1)]
    variables = read_variables(logdir)
    hp = translator.hp
    size = hp.d_model // hp.num_heads
    whole = ablate(translator, line, [], target)
    actual = ablate(translator, line, off, target)
    assert actual.score != pytest.approx(whole.score, abs=1e-3)
    for name in off:
        part = slice(name.head * size, (name.head + 1) * size)
        if hp.resolved_dialect.output_projection:
            variables[f"{name.scope}/o/kernel"][part] = 0
        else:
            variables[f"{name.scope}/v/kernel"][:, part] = 0
            variables[f"{name.scope}/v/bias"][part] = 0
    before = translator.checkpoints[0]
    copy = str(tmp_path / "changed")
    shutil.copytree(logdir, copy)
    changed = {name: np.float32(array) for name, array in variables.items()}
    checkpoints.save_arrays(changed, copy, 2)
    checkpoints.find_and_load(copy, translator.restore, 2)
    expected = ablate(translator, line, [], target)
    translator.restore(before)
    assert actual.best_ids == expected.best_ids
    assert actual.score == pytest.approx(expected.score, abs=1e-5)
    scores = [best.score for best in actual.n_best]
    assert scores == pytest.approx([x.score for x in expected.n_best], abs=1e-5)


PROGRAM = (
    MAKE_ENGINE
    + """return (async () => ({
        heads: input.names.map(([kind, layer, head]) => {
            const result = inspectHead(engine, { ...input, kind, layer, head });
            for (const name of ["queries", "keys", "values"]) {
                result[name].data = [...result[name].data];
            }
            return result;
        }),
        ablation: ablate(engine, { ...input, heads: input.names }),
        each: await ablateEach(engine, input),
    }))();"""
)


@needs_node
def test_the_page_computes_the_same(model, lines):
    translator, _ = model
    line, target = lines[2], [8, 5, 6]
    names = [HeadName("encoder", 0, 0), HeadName("decoder", 1, 1), CROSS]
    exported = weights.export_weights(
        translator.hp, translator.checkpoints[0], "float32"
    )
    data = {
        "weights": encode_base64(exported),
        "kernels": read_kernels(),
        "text": line,
        "target": target,
        "names": names,
    }
    actual = run_node(PROGRAM, data)
    for name, result in zip(names, actual["heads"]):
        expected = inspect_head(translator, line, name, target)
        for key in ("queries", "keys", "values"):
            array = getattr(expected, key)
            assert result[key]["shape"] == list(array.shape)
            np.testing.assert_allclose(result[key]["data"], array.ravel(), atol=1e-4)
        assert_close(
            result["alternatives"],
            [[list(item) for item in row] for row in expected.alternatives],
        )
    expected = ablate(translator, line, names, target)
    assert_close(actual["ablation"], ablation_to_json(expected))
    assert_close(actual["each"], ablate_each(translator, line, target))


def test_each_head_is_switched_off_alone(trained, lines):
    with open_translator(trained, {"decode_batch_size": 3}) as translator:
        hp = translator.hp
        [target] = translator.encode([lines[0]])
        changes = ablate_each(translator, lines[0], target)
        penalty = ((5 + len(target) + 1) / 6) ** hp.length_penalty
        whole = ablate(translator, lines[0], [], target)
        for kind in KINDS:
            name = HeadName(kind, 0, 1)
            without = ablate(translator, lines[0], [name], target)
            change = (without.score - whole.score) * penalty
            actual = changes[name.kind][name.layer][name.head]
            assert actual == pytest.approx(change, abs=1e-4)


def test_with_all_heads_the_translation_is_the_same(trained, lines):
    """To the bit; and the graph of translation has no op of a head mask."""
    with open_translator(trained) as translator:
        graph = translator._session.graph
        num_ops = len(graph.get_operations())
        inspection = inspect_line(translator, lines[0], leave_out=False)
        ablation = ablate(translator, lines[0], [], inspection.best_ids[0])
        assert ablation.n_best == inspection.n_best
        assert ablation.best_ids == inspection.best_ids
        assert ablation.score == pytest.approx(ablation.n_best[0].score, abs=1e-6)
        inspect_head(translator, lines[0], FIRST)
        assert len(graph.get_operations()) > num_ops
        num_ops = len(graph.get_operations())
        inspect_head(translator, lines[0], FIRST, padding=1)  # adds no op
        ablate(translator, lines[0], [FIRST])
        assert len(graph.get_operations()) == num_ops
        # The weights are those of the heat map, with padding and without.
        for padding in (0, 3):
            inspection = inspect_line(
                translator, lines[0], padding=padding, leave_out=False
            )
            for name in (FIRST, HeadName("encoder", 0, 1)):
                head = inspect_head(translator, lines[0], name, padding=padding)
                logits = head.queries @ head.keys.T / head.keys.shape[1] ** 0.5
                allowed = inspection.allowed[name.kind]
                weights = oracle.softmax(
                    np.where(allowed, logits, -np.inf)[allowed.any(-1)]
                )
                expected = inspection.attention[name.kind][name.layer, name.head]
                np.testing.assert_allclose(
                    weights, expected[allowed.any(-1)], atol=1e-5
                )


@pytest.mark.slow
def test_a_prefix_is_kept_without_a_head(trained, lines):
    with open_translator(trained) as translator:
        ablation = ablate(translator, lines[0], [FIRST], prefix=[6, 7])
        assert all(ids[:2] == [6, 7] for ids in ablation.best_ids)
        assert ablation.score is None
        given = inspect_head(translator, lines[0], FIRST, prefix=[6, 7])
        best = translator.search_line(*translator.encode([lines[0]]), [6, 7]).ids[0][0]
        target = translator.vocabularies.target.strip_special(best)
        expected = inspect_head(translator, lines[0], FIRST, target)
        for actual, correct in zip(given, expected):
            np.testing.assert_array_equal(actual, correct)


@pytest.mark.parametrize(
    "name, message",
    [
        (("outer", 0, 0), "kind: expected one of encoder, decoder, cross, got 'outer'"),
        (("cross", 2, 0), "layer: expected 0 to 1, got 2"),
        (("encoder", 0, -1), "head: expected 0 to 1, got -1"),
    ],
)
def test_a_head_that_does_not_exist_is_refused(name, message):
    hp = hparams.HParams(num_blocks=2, num_heads=2)
    with pytest.raises(SettingsError, match=message):
        check_heads(hp, [CROSS, HeadName(*name)])


def test_relative_positions_are_refused_inside_a_head_only(digits, lines, tmp_path):
    logdir = make_logdir(digits, tmp_path / "logs", max_relative_position=3)
    with open_translator(logdir) as translator:
        assert ablate(translator, lines[0], [CROSS]).n_best
        with pytest.raises(EngineError, match="max_relative_position = 3"):
            inspect_head(translator, lines[0], CROSS, [5])


@pytest.mark.slow
def test_keys_and_values_may_have_other_widths(digits, lines, tmp_path):
    logdir = make_logdir(digits, tmp_path / "logs", d_k=3, d_v=4)
    with open_translator(logdir) as translator:
        target = [5, 6]
        [logits] = translator.probe(
            translator.encode(lines[:1]), [target], lambda ops: ops.logits
        )
        head = inspect_head(translator, lines[0], CROSS, target)
        assert [x.shape[1] for x in head[:3]] == [3, 3, 4]
        for row, alternatives in zip(logits, head.alternatives):
            for piece, _, logit, _ in alternatives:
                assert logit == pytest.approx(row[piece], abs=1e-6)
        assert ablate(translator, lines[0], [CROSS]).n_best
