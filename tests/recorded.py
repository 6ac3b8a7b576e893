"""The names of the recorded arrays of each original system, and their ids."""

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from transformer.text.vocabulary import BOS, EOS, PAD


class Recorded(NamedTuple):
    """The names of the recorded arrays of a system, and its special ids."""

    source: str
    target_in: str  # "": target_out shifted to the right by one
    target_out: str
    logits: str
    losses: Tuple[Tuple[str, float], ...]  # (name, label smoothing)
    greedy: str
    first: int = BOS
    end: int = EOS


LEGACY = Recorded(
    source="in/x",
    target_in="out/decoder_inputs",
    target_out="in/y",
    logits="out/logits",
    losses=(("out/mean_loss", 0.1),),
    greedy="out/preds",
)

RECORDED = {
    "tutorial": LEGACY,
    "kyubyong_legacy": LEGACY,
    "kyubyong": Recorded(
        source="in/x",
        target_in="in/decoder_inputs",
        target_out="in/y",
        logits="out/logits",
        losses=(("out/loss", 0.1),),
        greedy="out/greedy_decode_maxlen2",
    ),
    "tensor2tensor": Recorded(
        source="in/inputs",
        target_in="",
        target_out="in/targets",
        logits="out/logits",
        losses=(("out/loss_eval", 0.0), ("out/loss_train_label_smoothed", 0.1)),
        greedy="out/greedy_outputs",
        first=PAD,
        end=1,
    ),
}


def recorded_losses(
    case: Dict[str, Any], recorded: Recorded
) -> List[Tuple[str, float]]:
    """Return (name, label smoothing) of each loss; the case may set the smoothing."""
    smoothing = case["meta"].get("kwargs", {}).get("label_smoothing")
    return [
        (name, smoothing if epsilon and smoothing is not None else epsilon)
        for name, epsilon in recorded.losses
    ]


def token_ids(array: np.ndarray) -> np.ndarray:
    """Return ids as int32 [N, T]; those of tensor2tensor have further dimensions."""
    return array.reshape(array.shape[:2]).astype(np.int32)


def shift_right(ids: np.ndarray, first: int) -> np.ndarray:
    """Shift ids [N, T] to the right by one, after `first`."""
    return np.concatenate([np.full_like(ids[:, :1], first), ids[:, :-1]], axis=1)


def cut_after_end(ids: np.ndarray, end: int) -> np.ndarray:
    """Replace the ids after the first `end` by zeros."""
    has_ended = np.cumsum(ids == end, axis=1) - (ids == end) > 0
    return np.where(has_ended, 0, ids)
