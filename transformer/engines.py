"""Open the translator that suits: TensorFlow, or the fast engine without it.

`Translator` and `FastTranslator` have the same interface: `translate`, `close`, `hp`,
`engine`, `checkpoints`, `unusual_lines`. TensorFlow, whose import takes seconds, is
imported only if it is needed.
"""

import warnings
from typing import TYPE_CHECKING, Callable, Dict, Optional, Sequence, Tuple, Union

from transformer.exports.ctranslate2 import (
    QUANTIZATIONS,
    TENSORFLOW,
    FastTranslator,
    choose_engine,
    find_exported,
    open_exported,
)
from transformer.hparams import HParams

if TYPE_CHECKING:
    from transformer.translator import Translator

AnyTranslator = Union["Translator", FastTranslator]


def open_translator(
    models: Sequence[Tuple[HParams, str]],
    which: Union[str, int] = "best",
    n_best: int = 1,
    engine: str = TENSORFLOW,
    quantization: str = QUANTIZATIONS[0],
    warn: Callable[[str], None] = warnings.warn,
    needs: Optional[Dict[str, bool]] = None,
    start_tensorflow: Callable[[], None] = lambda: None,
) -> AnyTranslator:
    """Open a translator with a checkpoint of one model, or of several together.

    The fast engine opens an existing export without TensorFlow. If there is none,
    TensorFlow loads the checkpoint, and makes and compares the export. What the fast
    engine cannot do is left to TensorFlow.

    Args:
      models: (settings, log directory) of each model.
      which: the checkpoint: "best", "newest" or a step.
      n_best, engine, quantization, warn: as in Translator.
      needs: name of a feature that the fast engine lacks → whether it is requested.
      start_tensorflow: called before TensorFlow is imported.

    Raises:
      TransformerError: as in Translator.
    """
    (hp, logdir), *other_models = models
    needs = {"ensembles": bool(other_models), **(needs or {})}
    engine = choose_engine(engine, quantization, hp, warn, needs)
    if engine == TENSORFLOW:
        quantization = QUANTIZATIONS[0]
    elif find_exported(logdir, which, quantization):
        return open_exported(logdir, hp, which, n_best, quantization)
    start_tensorflow()
    from transformer.translator import Translator

    translator = Translator.for_settings(
        hp,
        logdir,
        n_best,
        other_models=other_models,
        engine=engine,
        quantization=quantization,
        warn=warn,
    )
    translator.find_and_restore(which)
    return translator
