"""The Transformer of "Attention Is All You Need" in TensorFlow 1.x style.

`READING_ORDER` lists the files in the order in which text flows through them; a file
imports only files above it. `train.py`, `eval.py` and `scripts/` put them together,
set up by `hparams.py`.

    from transformer import Translator
"""

# (file, where the paper describes it, what it turns into what)
READING_ORDER = (
    ("dialects", "", "a name → what that source of the Transformer decides"),
    ("runtime.files", "", "content → a file, written whole or not at all"),
    ("runtime.folders", "", "a folder, written whole or not at all"),
    ("runtime.terminal", "", "text → what a terminal may be shown"),
    ("runtime.patience", "", "a request → an answer in time"),
    ("runtime.fetch", "", "addresses → a file, verified by its checksum"),
    ("text.lines", "", "files → lines of text"),
    ("text.arrays", "", "files ↔ arrays of integers, of which nothing is believed"),
    ("text.subwords", "", "lines ↔ ids, by a vocabulary of tensor2tensor"),
    ("text.vocabulary", "5.1", "lines ↔ ids, by SentencePiece or a word list"),
    ("text.vocabulary_files", "", "a folder → its vocabularies"),
    ("text.bpe_dropout", "", "lines → different ids each time, for training"),
    ("text.corpus", "5.1", "text files → ids on disk"),
    ("text.remarks", "", "text files → what is odd about them"),
    ("text.summary", "", "a data folder → what it says of itself, verified"),
    ("text.public_corpora", "", "names → archives of public corpora"),
    ("data", "5.1", "ids → batches; the target is shifted here"),
    ("blocks.primitives", "5.4", "dropout, dense layers, heads, add and normalize"),
    ("blocks.masks", "3.2.3", "padding mask, causal mask, local mask"),
    ("blocks.polarity", "", "warnings about inverted masks"),
    ("blocks.positions", "3.5", "positions → vectors"),
    ("blocks.attention", "3.2.1", "the attention formula; masks are applied here"),
    ("blocks.relative", "", "distances between positions → vectors"),
    ("blocks.local", "4", "attention within blocks of a sequence"),
    ("modules", "3.1 – 3.5", "embedding, attention, feed-forward, normalization"),
    ("functional", "", "attention with lengths instead of masks"),
    ("keras_layers.base", "", "what the Keras layers share"),
    ("keras_layers.positions", "", "positions as Keras 3 layers"),
    ("keras_layers.attention", "", "attention as Keras 3 layers"),
    ("keras_layers.restricted", "4", "local, atrous, sparse attention as Keras layers"),
    ("embeddings", "3.4", "ids → vectors; the decoder's states → logits"),
    ("model", "figure 1", "a batch → Memory → logits"),
    ("search_loop", "", "the loop of a search, whose batch shrinks"),
    ("search_history", "", "every candidate of every step of a beam search"),
    ("decoding", "6.1", "a step function → Hypotheses; knows no model"),
    ("training", "5.3, 5.4", "label smoothing, the loss, schedules, the update"),
    ("runtime.process", "", "one process in a log directory; its signals"),
    ("runtime.ending", "", "what ends a command → a status and one line"),
    ("runtime.cli", "", "arguments → a command; errors → one line"),
    ("runtime.devices", "", "the machine → its devices"),
    ("runtime.precision", "", "a precision → how TensorFlow computes in it"),
    ("runtime.sessions", "", "settings of the machine → a session"),
    ("runtime.tensors", "", "a checkpoint → its tensors"),
    ("runtime.checkpoints", "", "variables ↔ the log directory"),
    ("runtime.events", "", "scalars ↔ TensorBoard's files"),
    ("runtime.reporting", "", "progress reports, dev scores"),
    ("runtime.history", "", "what each process continued a training run with"),
    ("runtime.figures", "", "a plot → a picture file, by matplotlib"),
    ("runtime.nonfinite", "", "a loss that is not finite → where that began"),
    ("runtime.ram", "", "sizes → how much memory training needs"),
    ("originals.names", "", "our variable names → those of the original systems"),
    ("originals.convert", "", "checkpoints of the original systems → ours"),
    ("originals.recommender", "", "a checkpoint of SASRec → a folder"),
    ("originals.recorded", "", "recorded numbers ↔ a model's"),
    ("compat.variables", "", "our variables → those of a source"),
    ("compat.checkpoints", "", "checkpoints of a source → a ported graph"),
    ("compat.kyubyong_legacy", "", "the modules of Kyubyong/transformer, 2017"),
    ("compat.tutorial", "", "the modules of the step-by-step tutorial"),
    ("compat.sasrec", "", "the modules of SASRec"),
    ("compat.functional_time", "", "the modules of a fork of SASRec"),
    ("compat.interhat", "", "the modules of InterHAt"),
    ("compat.kyubyong", "", "the modules of Kyubyong/transformer, 2019"),
    ("compat.tensor2tensor_layers", "", "the common_layers of tensor2tensor"),
    ("compat.tensor2tensor_biases", "", "the biases and timing of tensor2tensor"),
    ("compat.tensor2tensor_attention", "", "the kinds of attention of tensor2tensor"),
    (
        "compat.tensor2tensor",
        "",
        "the common_attention of tensor2tensor, and all of it",
    ),
    ("compat.bojone", "", "the functions of bojone/attention"),
    ("compat.bojone_keras", "", "the Keras layers of bojone/attention"),
    ("translator", "6.1", "a log directory → translations"),
    ("seeing.words", "", "pieces → words; attention between words"),
    ("seeing.roles", "", "attention weights → what each head does, in words"),
    ("seeing.tree", "", "the history of a beam search → a tree of hypotheses"),
    ("seeing.sight", "", "a line → all that can be seen of its translation"),
    ("seeing.packing", "", "all that can be seen → JSON"),
    ("evaluation", "6.1", "translations → BLEU and chrF"),
    ("export", "", "a log directory → a folder that CTranslate2 opens"),
    ("symptoms", "", "translations → what is wrong with them"),
    ("training_graph", "5", "a corpus → the ops of a training run"),
    ("trainer", "5", "a corpus → a log directory; numbers are logged here"),
    ("checks", "", "causality, padding, batch invariance of your own blocks"),
    ("porting.reading", "", "a file of Python → its text, tokens and syntax tree"),
    ("porting.signatures", "", "the text of functions → their parameters"),
    ("porting.formulas", "", "a function → what it computes, in plain words"),
    ("porting.sources", "", "a file of modules → whose they are"),
    ("porting.calls", "", "imports and calls of blocks → what to write"),
    ("porting.tensorflow2", "", "names that TensorFlow 2 does not have → others"),
    ("porting.patch", "", "changes of a file → a unified patch"),
    ("porting.report", "", "all that is known of a file → text"),
    ("porting.recipes", "", "blocks → arguments to call them with"),
    ("porting.compare", "", "two files of modules → how far they are apart"),
    ("porting.__main__", "", "the command: python -m transformer.porting"),
)

__all__ = ["READING_ORDER", "Translator"]


def __getattr__(name):
    """Import `Translator` on first use: importing the package needs no TensorFlow."""
    if name == "Translator":
        from transformer.translator import Translator

        return Translator
    raise AttributeError(f"module 'transformer' has no attribute {name!r}")
