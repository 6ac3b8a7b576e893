"""The Transformer of "Attention Is All You Need" in TensorFlow 1.x style.

Text flows down this list; a file imports only files above it. Read in this order:

    lines         files  ->  lines of text
    subwords      lines of text  <->  ids, as tensor2tensor's vocabularies do it
    text          lines of text  <->  ids, by SentencePiece
    bpe_dropout   lines of text  ->  other ids each time, for training
    data          prepared ids  ->  Batch(source, target_in, target_out, number)
    dialects      a name  ->  what that source of the Transformer decides differently
    primitives    shapes, dropout, the dense layer, heads
    masks         who may attend to whom
    positions     positions  ->  vectors
    attention     the one attention formula
    relative      how far apart two positions are, as vectors
    local         attention within blocks of a sequence
    modules       the blocks: embedding, attention, feed-forward, normalization
    model         Batch  ->  Memory  ->  logits
    decoding      a step function  ->  Hypotheses, by greedy or beam search, or drawn
    training      logits  ->  loss  ->  an update of the variables
    sources       our names of variables  ->  those of the original systems
    sessions      settings of the machine  ->  a session
    checkpoints   variables  <->  the log directory
    translator    lines  ->  translations, with a log directory
    evaluation    translations  ->  BLEU and chrF
    reporting     what a training tells while it runs
    runs          a training alone in its log directory, and stopped by signals

Beside the way: more blocks (`functional`, `keras_*`), models of the original programs
(`importing`, `recorded`), faults (`diagnosis`, `memory`), and `checks`.
`train.py`, `eval.py` and `scripts/` put these together, set up by `hparams.py`.
"""
