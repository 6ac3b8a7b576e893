"""Search: on small trees, on random tables beside the oracle, and with the model.

Ids: 0 PAD, 1 UNK, 2 BOS, 3 EOS, then the pieces A, B, C.
"""

import math

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf
from slow import slow_except

from transformer.decoding import (
    SEARCHES,
    SearchOptions,
    beam,
    draw_pieces,
    greedy,
    reorder,
    sample,
)
from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.text.vocabulary import BOS, EOS, PAD

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
A, B, C = 4, 5, 6
V = 7


def until_end(ids):
    """The pieces of a row of ids up to EOS; behind it there must be nothing."""
    ids = [int(piece) for piece in ids]
    end = ids.index(EOS) + 1 if EOS in ids else len(ids)  # with `keep_open`
    assert not any(ids[end:]), ids
    return tuple(ids[:end])


def list_hypotheses(hypotheses, line=0):
    """The hypotheses of a line as the oracle has them: [(score, pieces with EOS)]."""
    pairs = zip(hypotheses.scores[line], hypotheses.ids[line])
    return [(score, until_end(ids)) for score, ids in pairs if score > -math.inf]


def assert_same(actual, expected):
    assert [pieces for _, pieces in actual] == [pieces for _, pieces in expected]
    np.testing.assert_allclose(
        [score for score, _ in actual], [score for score, _ in expected], **CLOSE
    )


# --- Trees that can be drawn ----------------------------------------------------------


def tree_step(tree):
    """A step function that walks a tree: {piece: (probability, subtree)}.

    Its state is the node of each hypothesis. What a node does not name has probability
    0; a missing subtree ends in EOS.
    """
    probabilities, children = [], []

    def add(node):
        index = len(probabilities)
        probabilities.append(np.zeros(V))
        children.append(np.zeros(V, np.int32))
        for piece, (probability, subtree) in (node or {EOS: (1.0, None)}).items():
            probabilities[index][piece] = probability
            if piece != EOS:
                children[index][piece] = add(subtree)
        return index

    add(tree)
    with np.errstate(divide="ignore"):
        log_probs = tf.constant(np.log(probabilities), tf.float32)
    children = tf.constant(np.array(children))

    def step(ids, parents, node):
        node, started = reorder(node, parents), tf.not_equal(ids, BOS)
        child = tf.gather_nd(children, tf.stack([node, ids], axis=-1))
        node = tf.where(started, child, node)
        return tf.gather(log_probs, node), node

    return step


def search_tree(start, tree, search, limit=9, **options):
    options = SearchOptions(**options)
    width = options.beam_size if search is beam else 1
    hypotheses = search(
        tree_step(tree), tf.zeros([1, width], tf.int32), tf.constant([limit]), options
    )
    session, _ = start()
    return list_hypotheses(session.run(hypotheses))


#   A .6 - EOS .4 (.24)        B .4 - EOS .9 (.36)
#        \ A .3, B .3               \ A .1
GARDEN_PATH = {
    A: (0.6, {EOS: (0.4, None), A: (0.3, None), B: (0.3, None)}),
    B: (0.4, {EOS: (0.9, None), A: (0.1, None)}),
}


def test_greedy_takes_the_likeliest_piece_at_each_place(start):
    hypotheses = search_tree(start, GARDEN_PATH, greedy, length_penalty=0.0)
    assert_same(hypotheses, [(math.log(0.24), (A, EOS))])


def test_beam_finds_what_greedy_misses(start):
    # A EOS is .24; the winner, B EOS, is .36.
    hypotheses = search_tree(
        start, GARDEN_PATH, beam, beam_size=2, n_best=2, length_penalty=0.0
    )
    assert_same(hypotheses, [(math.log(0.36), (B, EOS)), (math.log(0.24), (A, EOS))])


#   EOS .5      A .5 - A 1 - A 1 - A .9 - EOS 1 (.45)
LONG_OR_SHORT = {
    EOS: (0.5, None),
    A: (0.5, {A: (1.0, {A: (1.0, {A: (0.9, None), B: (0.1, None)})})}),
}


@pytest.mark.parametrize(
    "alpha, winner",
    [
        (0.0, (EOS,)),  # log .5 = -.69 > log .45 = -.80
        (
            0.6,
            (A, A, A, A, EOS),
        ),  # log .45 / (10/6)^.6 = -.59 > log .5 / (6/6)^.6 = -.69
    ],
    ids=["alpha_0", "alpha_0.6"],
)
def test_length_penalty_favours_the_longer(start, alpha, winner):
    hypotheses = search_tree(
        start, LONG_OR_SHORT, beam, beam_size=2, length_penalty=alpha
    )
    [(score, pieces)] = hypotheses
    assert pieces == winner
    probability = 0.5 if winner == (EOS,) else 0.45
    expected = math.log(probability) / ((5 + len(winner)) / 6) ** alpha
    np.testing.assert_allclose(score, expected, **CLOSE)


#   A .5 - C .9 - EOS 1 (.45)   B .4 - EOS .55 (.22)   C .1 - EOS 1 (.1)
#        \ B .1                       \ A .45 (.18)
LATE = {
    A: (0.5, {C: (0.9, None), B: (0.1, None)}),
    B: (0.4, {EOS: (0.55, None), A: (0.45, None)}),
    C: (0.1, {EOS: (1.0, None)}),
}


def test_a_first_finished_hypothesis_does_not_end_the_search(start):
    # B EOS (.22) is finished first, but A C (.45) is still open, and ends with EOS 1.
    hypotheses = search_tree(start, LATE, beam, beam_size=2, length_penalty=0.0)
    assert_same(hypotheses, [(math.log(0.45), (A, C, EOS))])


def test_fewer_sentences_than_asked_for(start):
    """Only two exist; the third has the score -inf and holds nothing."""
    hypotheses = beam(
        tree_step({A: (0.7, None), B: (0.3, None)}),
        tf.zeros([1, 3], tf.int32),
        tf.constant([5]),
        SearchOptions(3, 0.0, 3),
    )
    session, _ = start()
    hypotheses = session.run(hypotheses)
    assert_same(
        list_hypotheses(hypotheses),
        [(math.log(0.7), (A, EOS)), (math.log(0.3), (B, EOS))],
    )
    assert hypotheses.scores[0, 2] == -math.inf
    assert not (hypotheses.ids[0, 2] != PAD).any()


def test_the_search_stops_when_nothing_better_can_come(start):
    # EOS .9 beats every continuation of A .1, so the limit of 50 is never reached.
    tree = {EOS: (0.9, None), A: (0.1, {A: (1.0, None)})}
    options = SearchOptions(beam_size=2, length_penalty=0.6)
    hypotheses = beam(
        tree_step(tree), tf.zeros([1, 2], tf.int32), tf.constant([50]), options
    )
    session, _ = start()
    hypotheses = session.run(hypotheses)
    assert until_end(hypotheses.ids[0, 0]) == (EOS,)
    assert hypotheses.ids.shape[-1] < 5


@pytest.mark.parametrize("search", [greedy, beam, sample])
@pytest.mark.parametrize(
    "changes",
    [
        {"length_penalty": -1.0},  # the bound of the beam would be wrong
        {"no_repeat_ngram": -1},
        {"temperature": 0.0},
        {"length_penalty": float("nan")},
        {"length_penalty": "0.6"},
        {"repetition_penalty": float("inf")},
        {"top_p": 2.0},
        {"beam_size": 2.5},
        {"length_penalty_form": "none"},
    ],
)
def test_options_that_no_search_can_have(search, changes):
    (name,) = changes
    with pytest.raises(ValueError, match=name):
        search(None, None, tf.constant([5]), SearchOptions(**changes))


def test_more_hypotheses_than_the_beam_holds():
    with pytest.raises(ValueError, match="n_best: expected .* size, 2, got 3"):
        beam(None, None, tf.constant([5]), SearchOptions(beam_size=2, n_best=3))


# --- Random tables --------------------------------------------------------------------


class Tables:
    """Random models, one a line, in which the next piece depends on the whole history.

    The row of the table is the sum of place * id over the history, modulo the number of
    rows: nothing short of the right history gives the right probabilities. So the state
    of the step function, which records the ids it was fed, must follow each hypothesis.
    """

    ROWS = 11

    def __init__(self, lines, seed=0, sharpness=2.0):
        logits = np.random.RandomState(seed).randn(lines, self.ROWS, V) * sharpness
        logits[:, :, [PAD, BOS]] = -np.inf
        self.log_probs = oracle.log_softmax(logits)
        self.lines = lines

    def of(self, line):
        """The model of a line as the oracle wants it."""

        def log_probs(pieces):
            code = sum(place * piece for place, piece in enumerate((BOS,) + pieces, 1))
            return list(self.log_probs[line, code % self.ROWS])

        return log_probs

    def search(self, search, limits, options, lines=None):
        """The Hypotheses of `lines`, all where not given, as tensors."""
        lines = np.arange(self.lines) if lines is None else np.array(lines)
        width = options.beam_size if search is beam else 1
        table = tf.constant(self.log_probs, tf.float32)

        def step(ids, parents, state):
            history = tf.concat(
                [reorder(state["history"], parents), ids[:, :, None]], 2
            )
            places = tf.range(1, tf.shape(history)[2] + 1)
            code = tf.reduce_sum(places * history, axis=2) % self.ROWS  # [N, K]
            line = tf.zeros_like(code) + state["line"][:, None]
            log_probs = tf.gather_nd(table, tf.stack([line, code], axis=2))
            return log_probs, {"history": history, "line": state["line"]}

        state = {
            "history": tf.zeros([len(lines), width, 0], tf.int32),
            "line": tf.constant(lines.astype(np.int32)),
        }
        limits = tf.constant(limits, shape=[len(lines)])
        return search(step, state, limits, options)


def score_of(pieces, log_probs, alpha):
    """What a sequence that ends in EOS scores by the definition."""
    total = sum(log_probs(pieces[:i])[piece] for i, piece in enumerate(pieces))
    return total / oracle.length_penalty(len(pieces), alpha)


ALPHAS = pytest.mark.parametrize("alpha", [0.0, 0.6], ids=lambda a: f"alpha_{a}")


def test_a_beam_of_one_is_greedy(start):
    tables = Tables(lines=6)
    options = SearchOptions(beam_size=1, length_penalty=0.6)
    session, _ = start()
    of_one, path = session.run(
        [tables.search(beam, 8, options), tables.search(greedy, 8, options)]
    )
    np.testing.assert_array_equal(of_one.ids, path.ids)
    np.testing.assert_allclose(of_one.scores, path.scores, **CLOSE)


@ALPHAS
@pytest.mark.parametrize("width", [2, 8], ids=lambda width: f"beam_{width}")
def test_a_narrow_beam_is_the_beam_of_the_oracle(start, width, alpha):
    """The oracle always goes on to the limit: stopping early has changed nothing."""
    tables, limit = Tables(lines=5, sharpness=1.0), 12
    session, _ = start()
    for n_best in (1, width):
        hypotheses = session.run(
            tables.search(
                beam,
                limit,
                SearchOptions(beam_size=width, length_penalty=alpha, n_best=n_best),
            )
        )
        for line in range(5):
            expected = oracle.beam_search(tables.of(line), width, limit, EOS, alpha)
            assert_same(list_hypotheses(hypotheses, line), expected[:n_best])


@pytest.mark.parametrize(
    "search", [greedy, beam, sample], ids=["greedy", "beam", "sample"]
)
def test_each_line_ends_within_its_own_limit(start, search):
    # Tables in which EOS is unlikely, so that the limit is what ends a sentence.
    tables, limits = Tables(lines=4, sharpness=0.5), [1, 2, 7, 4]
    tables.log_probs[:, :, EOS] = -20
    tables.log_probs = oracle.log_softmax(tables.log_probs)
    options = SearchOptions(beam_size=3, n_best=3 if search is beam else 1)
    session, _ = start()
    actual = session.run(tables.search(search, limits, options))
    for line, limit in enumerate(limits):
        hypotheses = list_hypotheses(actual, line)
        assert {len(pieces) for _, pieces in hypotheses} == {limit}
        for score, pieces in hypotheses:
            expected = score_of(pieces, tables.of(line), options.length_penalty)
            np.testing.assert_allclose(score, expected, **CLOSE)


# --- What a search may not take, and how a sample is drawn ----------------------------


def obeys(pieces, limit, min_length, ngram):
    """Whether a sequence keeps the rules; at the limit EOS is forced."""
    pieces = pieces[:-1]
    parts = [pieces[i : i + ngram] for i in range(len(pieces) - ngram + 1)]
    return len(pieces) >= min(min_length, limit - 1) and len(set(parts)) == len(parts)


@pytest.mark.parametrize("keep_open", [False, True], ids=["must_end", "keep_open"])
@pytest.mark.parametrize(
    "form, penalty",
    slow_except(
        [("wu", 1.0), ("power", 1.5)],
        [(form, penalty) for form in ("wu", "power") for penalty in (1.0, 1.5)],
    ),
)
def test_a_wide_beam_finds_all_whatever_the_scores(start, form, penalty, keep_open):
    """And a narrow one of them, greedy search and samples, have the same scores."""
    tables, limit, alpha = Tables(lines=2, sharpness=1.0), 4, 1.3
    tables.log_probs += 1.0  # logits of both signs
    options = SearchOptions(
        beam_size=260,
        n_best=260,
        length_penalty=alpha,
        length_penalty_form=form,
        repetition_penalty=penalty,
        keep_open=keep_open,
    )
    narrow = options._replace(beam_size=3, n_best=3)
    of_one = options._replace(beam_size=1, n_best=1)
    session, _ = start()
    wide, *narrower = session.run(
        [
            tables.search(beam, limit, options),
            tables.search(beam, limit, narrow),
            tables.search(beam, limit, of_one),
            tables.search(greedy, limit, of_one),
            tables.search(sample, limit, of_one),
        ]
    )
    for line in range(2):
        logits = tables.of(line)
        expected = oracle.all_sequences(
            lambda pieces, logits=logits: oracle.penalize_repetition(
                logits(pieces), pieces, penalty
            ),
            *(limit, V, EOS, alpha, form, keep_open),
        )
        assert_same(list_hypotheses(wide, line), expected[:260])
        score_of_pieces = {pieces: score for score, pieces in expected}
        for hypotheses in narrower:
            for score, pieces in list_hypotheses(hypotheses, line):
                np.testing.assert_allclose(score, score_of_pieces[pieces], **CLOSE)
        of_one, greedily = (
            list_hypotheses(hypotheses, line) for hypotheses in narrower[1:3]
        )
        assert_same(of_one, greedily)


@pytest.mark.parametrize("search", [greedy, beam, sample])
def test_padding_among_the_pieces_counts(start, search):
    """A vocabulary without padding: id 0 is a piece like the others."""
    tree = {0: (1.0, {EOS: (1.0, None)})}
    tree = {0: (1.0, {A: (0.5, tree), B: (0.5, tree)})}
    [(score, pieces)] = search_tree(
        start, tree, search, beam_size=2, length_penalty=1.5
    )
    assert pieces in [(0, A, 0, EOS), (0, B, 0, EOS)]
    expected = math.log(0.5) / oracle.length_penalty(4, 1.5)
    np.testing.assert_allclose(score, expected, **CLOSE)


@pytest.mark.parametrize(
    "search, must_end", [(greedy, True), (beam, True), (beam, False)]
)
def test_a_place_without_a_hypothesis_has_no_pieces(start, search, must_end):
    """In these tables, most pieces are impossible, often the end, too."""
    tables = Tables(lines=12, seed=3)
    impossible = np.random.RandomState(4).rand(*tables.log_probs.shape) < 0.8
    impossible[:, :, A] = False
    tables.log_probs[impossible] = -np.inf
    options = SearchOptions(
        beam_size=8, n_best=8 if search is beam else 1, must_end=must_end
    )
    session, _ = start()
    hypotheses = session.run(tables.search(search, 2, options))
    is_missing = np.isneginf(hypotheses.scores)
    assert is_missing.any() and not is_missing.all()
    assert not hypotheses.ids[is_missing].any()


RULES = pytest.mark.parametrize(
    "min_length, ngram",
    slow_except([(3, 99), (2, 2)], [(3, 99), (0, 1), (2, 2), (9, 3)]),
)


@RULES
def test_a_wide_beam_finds_all_that_the_rules_allow(start, min_length, ngram):
    """With the scores of the model: what is not allowed keeps its share."""
    tables, limit = Tables(lines=1), 5
    options = SearchOptions(
        beam_size=350, n_best=350, min_length=min_length, no_repeat_ngram=ngram
    )
    session, _ = start()
    hypotheses = session.run(tables.search(beam, limit, options))
    sequences = oracle.all_sequences(tables.of(0), limit, V, EOS, 0.6)
    expected = [
        (score, pieces)
        for score, pieces in sequences
        if obeys(pieces, limit, min_length, ngram)
    ]
    assert 0 < len(expected) < len(sequences)
    assert_same(list_hypotheses(hypotheses), expected)


@RULES
def test_greedy_takes_the_likeliest_that_the_rules_allow(start, min_length, ngram):
    tables, limit = Tables(lines=4), 9
    options = SearchOptions(min_length=min_length, no_repeat_ngram=ngram)
    session, _ = start()
    greedily, drawn = session.run(
        [tables.search(search, limit, options) for search in (greedy, sample)]
    )
    for line in range(4):
        log_probs, pieces = tables.of(line), ()
        while pieces[-1:] != (EOS,):
            ranked = np.argsort(log_probs(pieces))[::-1]
            fit = [
                int(piece)
                for piece in ranked
                if piece not in (PAD, BOS)
                and obeys(
                    pieces + ((EOS,) if piece == EOS else (int(piece), EOS)),
                    limit,
                    min_length if piece == EOS else 0,
                    ngram,
                )
            ]
            pieces += (EOS if len(pieces) == limit - 1 else fit[0],)
        assert_same(
            list_hypotheses(greedily, line),
            [(score_of(pieces, log_probs, 0.6), pieces)],
        )
        [(score, pieces)] = list_hypotheses(drawn, line)
        assert obeys(pieces, limit, min_length, ngram)
        np.testing.assert_allclose(score, score_of(pieces, log_probs, 0.6), **CLOSE)


@pytest.mark.parametrize("search", [greedy, sample], ids=["greedy", "sample"])
def test_a_path_need_not_end_at_its_limit(start, search):
    """It is cut off there and has its log-probability, as the beam has it."""
    tables, limits = Tables(lines=4, sharpness=0.5), [1, 2, 7, 4]
    tables.log_probs[:, :, EOS] = -20
    tables.log_probs = oracle.log_softmax(tables.log_probs)
    options = SearchOptions(beam_size=1, must_end=False)
    session, _ = start()
    hypotheses, expected = session.run(
        [
            tables.search(chosen_search, limits, options)
            for chosen_search in (search, beam)
        ]
    )
    for line, limit in enumerate(limits):
        pieces = tuple(np.trim_zeros(hypotheses.ids[line, 0], "b"))
        assert len(pieces) == limit and EOS not in pieces
        score = sum(
            tables.of(line)(pieces[:i])[piece] for i, piece in enumerate(pieces)
        )
        np.testing.assert_allclose(hypotheses.scores[line, 0], score, **CLOSE)
    if search is greedy:
        np.testing.assert_array_equal(hypotheses.ids, expected.ids)
        np.testing.assert_allclose(hypotheses.scores, expected.scores, **CLOSE)


@pytest.mark.parametrize(
    "options, shares",
    [
        ({}, {A: 0.5, B: 0.3, EOS: 0.15, C: 0.05}),
        ({"top_k": 2}, {A: 5 / 8, B: 3 / 8}),
        ({"top_p": 0.4}, {A: 1}),
        ({"top_p": 1e-50}, {A: 1}),  # 0 in float32
        ({"top_p": 0.7}, {A: 5 / 8, B: 3 / 8}),  # A alone is less than 0.7
        ({"top_p": 0.9}, {A: 10 / 19, B: 6 / 19, EOS: 3 / 19}),
        ({"temperature": 0.5, "top_p": 0.7}, {A: 25 / 34, B: 9 / 34}),
        ({"min_length": 1, "top_k": 3}, {A: 10 / 17, B: 6 / 17, C: 1 / 17}),
    ],
    ids=str,
)
def test_samples_of_the_likeliest_pieces(start, options, shares):
    """A first piece, 5,000 times; its score is the model's all the same."""
    tree = {A: (0.5, None), B: (0.3, None), EOS: (0.15, None), C: (0.05, None)}
    lines = 5000
    tf.set_random_seed(1)
    hypotheses = sample(
        tree_step(tree),
        tf.zeros([lines, 1], tf.int32),
        tf.fill([lines], 5),
        SearchOptions(length_penalty=0.0, **options),
    )
    session, _ = start()
    hypotheses = session.run(hypotheses)
    first = hypotheses.ids[:, 0, 0]
    assert set(first) == set(shares)
    for piece, share in shares.items():
        drawn = first == piece
        assert abs(drawn.mean() - share) <= 5 * (share * (1 - share) / lines) ** 0.5
        expected = math.log(tree[piece][0])
        np.testing.assert_allclose(hypotheses.scores[drawn, 0], expected, **CLOSE)


def test_a_number_chooses_the_piece_in_whose_share_it_lies(start):
    session, _ = start()
    random = np.random.RandomState(3)
    logits = random.normal(size=[50, 7]).astype(np.float32)
    logits[:, 2:4] = -np.inf  # forbidden
    drawn = random.uniform(size=50).astype(np.float32)
    drawn[:2] = 0, np.nextafter(np.float32(1), np.float32(0))
    hypotheses = session.run(draw_pieces(drawn, logits))
    shares = np.exp(oracle.log_softmax(logits.astype(float)))
    for row, uniform, [piece] in zip(shares, drawn, hypotheses):
        assert row[piece] and row[:piece].sum() <= uniform + 1e-5
        assert uniform < row[: piece + 1].sum() + 1e-5


# --- With the model -------------------------------------------------------------------


class Translation:
    """A random Transformer that searches, and that scores what was found in full."""

    SOURCE = np.array([[7, 9, 4, 8, 3], [6, 3, 0, 0, 0], [8, 10, 4, 3, 0]])

    def __init__(self, num_heads=2):
        self.model = Transformer(
            HParams(
                dialect="paper",
                num_blocks=1,
                d_model=8,
                d_ff=16,
                num_heads=num_heads,
                source_vocab_size=11,
                target_vocab_size=11,
            )
        )
        self.source = tf.placeholder(tf.int32, [None, None])
        self.target_in = tf.placeholder(tf.int32, [None, None])
        self.memory = self.model.encode(self.source)
        self.log_probs = tf.nn.log_softmax(
            self.model.decode(self.target_in, self.memory)
        )

    def search(self, name, limit, options):
        sentences = tf.shape(self.source)[0]
        step, state = self.model.start_search(
            self.memory, options.beam_size if name == "beam" else 1
        )
        return SEARCHES[name](
            step,
            state,
            tf.fill([sentences], limit),
            options._replace(forbidden=(PAD, BOS)),
        )


def test_the_beam_of_the_model_is_the_beam_of_the_oracle(start):
    """The oracle's search and the oracle's Transformer, against the package's."""
    translation, limit = Translation(), 6
    hypotheses = translation.search("beam", limit, SearchOptions(3, 0.6, 3))
    session, variables = start()
    hypotheses = session.run(hypotheses, {translation.source: translation.SOURCE})
    for line, source in enumerate(translation.SOURCE):
        memory = oracle.encode(source[None], variables, 2)

        def log_probs(pieces, source=source, memory=memory):
            logits = oracle.decode(
                np.array([(BOS,) + pieces]), memory, source[None], variables, 2
            )
            result = oracle.log_softmax(logits)[0, -1]
            result[[PAD, BOS]] = -np.inf
            return list(result)

        expected = oracle.beam_search(log_probs, 3, limit, EOS, 0.6)
        assert_same(list_hypotheses(hypotheses, line), expected)
