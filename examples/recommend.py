"""Train a sequential recommender, and print how often the next item is among ten.

    python examples/recommend.py --logdir logs/recommender           on made sequences
    python examples/recommend.py --logdir logs/ml --data ml-1m.txt   on those of a file
    python examples/recommend.py --logdir logs/recommender --after "3 8 5"

This is the model of SASRec (Kang, McAuley 2018), its graph written as its code has it,
with `transformer.compat.sasrec` instead of its own modules. A file has a line for each
event, "user item", in the order of time, as SASRec's files have it. With `--after`, the
items that are the likeliest to follow a sequence are printed; a folder that
`scripts/import_checkpoint.py --from sasrec` wrote works too.
"""

import os
import random
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from transformer.originals import recommender
from transformer.runtime import cli

BATCH_SIZE, DROPOUT_RATE, LEARNING_RATE = 64, 0.2, 0.001
SHOWN = 10  # items that are recommended

Sequences = List[List[int]]


class Graph(NamedTuple):
    """The tensors of a recommender that are fed and fetched."""

    sequences: Any  # int32 [N, T], padded in front with 0
    following: Any  # int32 [N, T], the item after each
    others: Any  # int32 [N, T], an item that does not follow
    is_training: Any  # bool []
    scores: Any  # float32 [N, V], of each item to be the next one
    loss: Any  # float32 []
    train_op: Any


def made_sequences(users: int, items: int, seed: int) -> Sequences:
    """Return sequences in which two items tell the third: it is as far again."""
    draw, sequences = random.Random(seed), []
    for _ in range(users):
        item, stride = draw.randrange(items), draw.choice([1, 2, 3, 5, 7])
        sequences.append(
            [1 + (item + i * stride) % items for i in range(draw.randint(5, 20))]
        )
    return sequences


def read_sequences(path: str) -> Sequences:
    """Return the sequences of a file of lines "user item".

    Raises:
      ValueError: a line is something else.
    """
    users: Dict[str, List[int]] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            if len(fields) != 2 or not fields[1].isdigit() or int(fields[1]) < 1:
                raise ValueError(
                    f"{path}:{number}: found {line.strip()!r}, wanted a user and an "
                    "item, which is a number from 1"
                )
            users.setdefault(fields[0], []).append(int(fields[1]))
    return [sequence for sequence in users.values() if len(sequence) > 2]


def states(ids, settings, is_training):
    """Return (states [N, T, D], table [V, D]) in the manner of SASRec's model.py."""
    import tensorflow.compat.v1 as tf

    from transformer.blocks.primitives import dropout
    from transformer.compat.sasrec import (
        embedding,
        feedforward,
        multihead_attention,
        normalize,
    )

    width = settings.num_units
    real = tf.cast(tf.not_equal(ids, 0), tf.float32)[..., None]  # [N, T, 1]
    with tf.variable_scope("SASRec"):
        x, table = embedding(
            ids,
            vocab_size=settings.items + 1,
            num_units=width,
            scope="input_embeddings",
            with_t=True,
        )
        x += embedding(
            tf.tile(tf.range(tf.shape(ids)[1])[None, :], [tf.shape(ids)[0], 1]),
            vocab_size=settings.max_length,
            num_units=width,
            zero_pad=False,
            scale=False,
            scope="dec_pos",
        )
        x = dropout(x, DROPOUT_RATE, is_training) * real
        for i in range(settings.num_blocks):
            with tf.variable_scope(f"num_blocks_{i}"):
                x = multihead_attention(
                    queries=normalize(x),
                    keys=x,
                    num_units=width,
                    num_heads=settings.num_heads,
                    dropout_rate=DROPOUT_RATE,
                    is_training=is_training,
                    causality=True,
                    scope="self_attention",
                )
                x = feedforward(
                    normalize(x),
                    num_units=[width, width],
                    dropout_rate=DROPOUT_RATE,
                    is_training=is_training,
                )
                x *= real
        return normalize(x), table


def build(settings: recommender.Settings) -> Graph:
    """Build the graph of the recommender."""
    import tensorflow.compat.v1 as tf

    sequences, following, others = (
        tf.placeholder(tf.int32, [None, settings.max_length]) for _ in range(3)
    )
    is_training = tf.placeholder_with_default(False, [])
    x, table = states(sequences, settings, is_training)
    likes, dislikes = (
        tf.reduce_sum(tf.gather(table, ids) * x, -1) for ids in (following, others)
    )
    real = tf.cast(tf.not_equal(following, 0), tf.float32)
    losses = tf.nn.softplus(-likes) + tf.nn.softplus(dislikes)
    loss = tf.reduce_sum(losses * real) / tf.reduce_sum(real)
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(LEARNING_RATE, beta2=0.98)
    train_op = optimizer.minimize(loss, step)
    scores = tf.matmul(x[:, -1], table, transpose_b=True)
    return Graph(sequences, following, others, is_training, scores, loss, train_op)


def padded(sequence: List[int], length: int) -> List[int]:
    """Return the last `length` items, behind as many zeros as are missing."""
    return ([0] * length + sequence)[-length:]


def train(session, graph: Graph, sequences: Sequences, settings, draw) -> float:
    """Train on all sequences once, but for their last items; return the mean loss."""
    losses, length = [], settings.max_length
    order = draw.permutation(len(sequences))
    for start in range(0, len(order), BATCH_SIZE):
        chosen = [sequences[i] for i in order[start : start + BATCH_SIZE]]
        following = np.array([padded(each[1:-1], length) for each in chosen])
        others = draw.randint(1, settings.items + 1, following.shape)
        feeds = {
            graph.sequences: [padded(each[:-2], length) for each in chosen],
            graph.following: following,
            graph.others: np.where(following > 0, others, 0),
            graph.is_training: True,
        }
        losses.append(session.run([graph.loss, graph.train_op], feeds)[0])
    return float(np.mean(losses))


def recommended(session, graph: Graph, sequences: Sequences, settings) -> np.ndarray:
    """Return the items that are the likeliest to follow each sequence: [N, SHOWN]."""
    rows = [padded(sequence, settings.max_length) for sequence in sequences]
    scores = session.run(graph.scores, {graph.sequences: rows})
    return 1 + np.argsort(-scores[:, 1:], axis=1)[:, :SHOWN]


def hit_rate(session, graph: Graph, sequences: Sequences, settings) -> float:
    """Return how often the last item of a sequence is among those recommended."""
    hits = []
    for start in range(0, len(sequences), BATCH_SIZE):
        chosen = sequences[start : start + BATCH_SIZE]
        begun = [sequence[:-1] for sequence in chosen]
        found = recommended(session, graph, begun, settings)
        hits += [each[-1] in items for each, items in zip(chosen, found)]
    return float(np.mean(hits))


def run(args) -> None:
    """Recommend, or train and score."""
    known = os.path.exists(os.path.join(args.logdir, recommender.FILE_NAME))
    if known != bool(args.after):
        raise ValueError(
            f"--logdir {args.logdir}: found {'a' if known else 'no'} recommender, "
            + ("wanted a new folder, or --after" if known else "wanted one for --after")
        )
    after = [int(item) for item in (args.after or "").split()]
    sequences: Sequences = []
    if known:
        settings = recommender.load(args.logdir)
        wrong = [item for item in after if not 1 <= item <= settings.items]
        if wrong:
            raise ValueError(
                f"--after: found {wrong[0]}, wanted items from 1 to {settings.items}"
            )
    else:
        sequences = (
            read_sequences(args.data)
            if args.data
            else made_sequences(args.users, 100, args.seed)
        )
        items = max(max(sequence) for sequence in sequences)
        settings = recommender.Settings(items, 20, 32, 2, 2)
    cli.start_tensorflow(args.verbose)
    # Only here: it takes seconds.
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(args.seed)
        graph = build(settings)
        if known:
            restore(session, args.logdir, settings)
            print(*recommended(session, graph, [after], settings)[0])
            return
        session.run(tf.global_variables_initializer())
        draw = np.random.RandomState(args.seed)
        print(f"{len(sequences)} sequences of {settings.items} items")
        for epoch in range(1, args.epochs + 1):
            loss = train(session, graph, sequences, settings, draw)
            print(f"epoch {epoch}  loss {loss:.3f}", flush=True)
        rate = hit_rate(session, graph, sequences, settings)
        print(f"hit rate at {SHOWN} = {rate:.4f} (by chance {SHOWN / items:.4f})")
        arrays = {each.op.name: each for each in shared_variables(settings)}
        recommender.write(session.run(arrays), settings.num_heads, args.logdir)


def restore(session: Any, logdir: str, settings) -> None:
    """Load the newest checkpoint of a folder.

    Raises:
      ValueError: it is of another recommender.
    """
    from transformer.runtime import checkpoints, tensors

    found = checkpoints.find(logdir, "newest")
    arrays, wanted = tensors.read(found), recommender.shapes(settings)
    tensors.refuse_other_shapes(found, tensors.shapes(found), wanted)
    for each in shared_variables(settings):
        each.load(arrays[each.op.name], session)


def shared_variables(settings) -> List[Any]:
    """Return the variables that a folder holds: not those of the optimizer."""
    import tensorflow.compat.v1 as tf

    names = recommender.shapes(settings)
    return [each for each in tf.trainable_variables() if each.op.name in names]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("recommend.py", __doc__)
    parser.add_argument(
        "--logdir", required=True, metavar="DIR", help="where the recommender is kept"
    )
    parser.add_argument("--data", metavar="FILE", help='lines "user item"')
    parser.add_argument(
        "--users", type=int, default=1000, metavar="INT", help="made sequences [1000]"
    )
    parser.add_argument("--epochs", type=int, default=40, metavar="INT", help="[40]")
    parser.add_argument(
        "--after", metavar="ITEMS", help='recommend what follows, as "3 8 5"'
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="INT", help="of all random numbers [1]"
    )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
