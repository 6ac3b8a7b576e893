"""Worker for a plain PyTorch loop around torch.nn.Transformer, compiled on GPUs."""

import math
from typing import Callable, Dict, Iterator, List, Tuple

import numpy as np
import torch
import work
from torch import nn
from torch.nn import functional
from worker import Measure, serve

from transformer import hparams
from transformer.compat.convert import read
from transformer.logdir.manifests import find_checkpoint
from transformer.text.batches import pad_with_end
from transformer.text.pieces import BOS, EOS, PAD, BaseVocabulary
from transformer.text.vocabulary import load_vocabularies

NEVER = float("-inf")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def set_up(spec: dict) -> torch.device:
    """Set the seed and the threads; return the device."""
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(work.SEED)
    if spec["device"] != "gpu":
        return torch.device("cpu")
    torch.set_float32_matmul_precision("high")  # TF32, TensorFlow's default
    return torch.device("cuda")


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Return position encodings as in tensor2tensor: float32 [length, width]."""
    pairs = width // 2
    rates = torch.exp(
        torch.arange(pairs, dtype=torch.float64) * -(math.log(10000.0) / (pairs - 1))
    )
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()


class Model(nn.Module):
    """A Transformer with tied embeddings and normalization before the sub-layers."""

    def __init__(self, sizes, vocab_size):
        super().__init__()
        width = sizes["d_model"]
        self.table = nn.Parameter(torch.randn(vocab_size, width) * width**-0.5)
        self.body = nn.Transformer(
            width,
            sizes["num_heads"],
            sizes["num_blocks"],
            sizes["num_blocks"],
            sizes["d_ff"],
            work.DROPOUT,
            batch_first=True,
            norm_first=True,
        )
        self.dropout = nn.Dropout(work.DROPOUT)
        self.register_buffer("target_positions", sinusoids(1024, width))
        self.register_buffer("source_positions", sinusoids(1024, width))

    def embed(self, ids, positions):
        """Return the embeddings of ids [N, T] plus positions: [N, T, D]."""
        x = functional.embedding(ids, self.table) * self.table.shape[1] ** 0.5
        x = x * (ids != PAD)[..., None]
        return self.dropout(x + positions[: ids.shape[1]])

    def forward(self, source, target_in):
        """Return the logits [N, T, V]."""
        padding = source == PAD
        future = nn.Transformer.generate_square_subsequent_mask(
            target_in.shape[1], device=source.device
        )
        x = self.body(
            self.embed(source, self.source_positions),
            self.embed(target_in, self.target_positions),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return functional.linear(x, self.table)


def measure_training(spec: dict, model: nn.Module, forward: Callable) -> Measure:
    """Return a function that measures training.

    Args:
      spec: the specification of the worker.
      model: the module with the parameters.
      forward: function of (source, target_in) that returns logits.
    """
    device = set_up(spec)
    model.to(device).train()
    optimizer = torch.optim.Adam(
        model.parameters(), work.LEARNING_RATE, work.BETAS, work.EPSILON
    )
    precision = PRECISIONS[spec["precision"]]

    def update(batch):
        source, target_in, target_out = (
            torch.as_tensor(ids, dtype=torch.long).to(device) for ids in batch[:3]
        )
        with torch.autocast(device.type, precision, enabled=precision != torch.float32):
            logits = forward(source, target_in)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1),
            target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=work.LABEL_SMOOTHING,
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    finish = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    measure, source = work.measure_training(update, finish), work.batches(spec)
    return lambda request: measure(request, source)


def open_training(spec: dict) -> Measure:
    """Return a function that measures training."""
    set_up(spec)
    model = Model(spec["sizes"], spec["vocab_size"])
    compiled = torch.compile(model, dynamic=True) if spec["device"] == "gpu" else model
    return measure_training(spec, model, compiled)


def load(model: Model, variables: Dict[str, np.ndarray], blocks: int) -> None:
    """Copy the variables of our model, with normalization first, into `model`."""
    state = model.state_dict()

    def put(name, *variable_names):
        arrays = [variables[variable].T for variable in variable_names]
        state[name].copy_(torch.as_tensor(np.concatenate(arrays)))

    def put_dense(name, *scopes, ending="."):
        put(f"{name}{ending}weight", *[f"{scope}/kernel" for scope in scopes])
        biases = [f"{scope}/bias" for scope in scopes if f"{scope}/bias" in variables]
        state[f"{name}{ending}bias"].zero_()
        if biases:
            put(f"{name}{ending}bias", *biases)

    def put_norm(name, scope):
        put(f"{name}.weight", f"{scope}/gamma")
        put(f"{name}.bias", f"{scope}/beta")

    state["table"].copy_(torch.as_tensor(variables["embedding/lookup_table"]))
    state["source_positions"] += torch.as_tensor(
        variables.get("encoder/target_space", np.float32(0))
    )
    stacks = {
        "encoder": {"self_attn": "self_attention"},
        "decoder": {"self_attn": "self_attention", "multihead_attn": "cross_attention"},
    }
    for stack, attentions in stacks.items():
        put_norm(f"body.{stack}.norm", f"{stack}/ln")
        for i in range(blocks):
            layer, block = f"body.{stack}.layers.{i}", f"{stack}/block_{i}"
            for j, (name, scope) in enumerate(attentions.items()):
                put_dense(
                    f"{layer}.{name}",
                    *[f"{block}/{scope}/{projection}" for projection in "qkv"],
                    ending=".in_proj_",
                )
                put_dense(f"{layer}.{name}.out_proj", f"{block}/{scope}/o")
                put_norm(f"{layer}.norm{j + 1}", f"{block}/{scope}/ln")
            put_dense(f"{layer}.linear1", f"{block}/feedforward/inner")
            put_dense(f"{layer}.linear2", f"{block}/feedforward/outer")
            put_norm(f"{layer}.norm{len(attentions) + 1}", f"{block}/feedforward/ln")


class Decoder:
    """Decodes the target step by step, with cached keys and values.

    Args:
      model: Model.
      source: ids [N, S].
      size: the number of hypotheses per sentence.
    """

    def __init__(self, model, source, size):
        self.model, self.heads = model, model.body.nhead
        memory = model.body.encoder(
            model.embed(source, model.source_positions),
            src_key_padding_mask=source == PAD,
        )
        self.mask = (source != PAD)[:, None, None].repeat_interleave(size, 0)
        self.memories, self.cache = [], []
        for layer in model.body.decoder.layers:
            attention, width = layer.multihead_attn, memory.shape[-1]
            keys_and_values = functional.linear(
                memory, attention.in_proj_weight[width:], attention.in_proj_bias[width:]
            ).chunk(2, -1)
            self.memories.append(
                [self._split(x).repeat_interleave(size, 0) for x in keys_and_values]
            )
            empty = memory.new_zeros(
                len(source) * size, self.heads, 0, width // self.heads
            )
            self.cache.append((empty, empty))

    def _split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _attend(self, attention, queries, keys, values, mask=None):
        x = functional.scaled_dot_product_attention(
            self._split(queries), keys, values, mask
        )
        return attention.out_proj(x.transpose(1, 2).flatten(2))

    def step(self, ids: torch.Tensor, position: int) -> torch.Tensor:
        """Return the log-probabilities [M, V] after `ids` [M] at a position."""
        model = self.model
        x = model.embed(ids[:, None], model.target_positions[position:])
        for i, layer in enumerate(model.body.decoder.layers):
            attention, width = layer.self_attn, x.shape[-1]
            Q, K, V = functional.linear(
                layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias
            ).chunk(3, -1)
            self.cache[i] = K, V = [
                torch.cat([old, self._split(new)], 2)
                for old, new in zip(self.cache[i], (K, V))
            ]
            x = x + self._attend(attention, Q, K, V)
            attention = layer.multihead_attn
            Q = functional.linear(
                layer.norm2(x),
                attention.in_proj_weight[:width],
                attention.in_proj_bias[:width],
            )
            x = x + self._attend(attention, Q, *self.memories[i], self.mask)
            x = x + layer.linear2(functional.relu(layer.linear1(layer.norm3(x))))
        logits = functional.linear(model.body.decoder.norm(x)[:, 0], model.table)
        return logits.log_softmax(-1)

    def reorder(self, rows: torch.Tensor) -> None:
        """Select the hypotheses to continue, int64 [M]."""
        self.cache = [[x.index_select(0, rows) for x in pair] for pair in self.cache]


def greedy(model: Model, source, limit: int, start: int) -> torch.Tensor:
    """Return the ids [N, T] of the most probable piece at each step."""
    decoder, done = Decoder(model, source, 1), source.new_zeros(len(source)).bool()
    ids = source.new_full([len(source), 1], start)
    while ids.shape[1] <= limit and not done.all():
        pieces = decoder.step(ids[:, -1], ids.shape[1] - 1).argmax(-1)
        ids = torch.cat([ids, pieces.masked_fill(done, PAD)[:, None]], 1)
        done |= pieces == EOS
    return ids[:, 1:]


def beam(model: Model, source, limit: int, start: int, size: int) -> List[List[int]]:
    """Return the best finished hypothesis of each sentence, a list of lists of ids."""
    count = len(source)
    decoder = Decoder(model, source, size)
    ids = source.new_full([count, size, 1], start)
    scores = torch.full([count, size], NEVER, device=source.device)
    scores[:, 0] = 0
    best, hypotheses = scores.new_full([count], NEVER), [[] for _ in range(count)]
    first = torch.arange(count, device=source.device)[:, None] * size
    for position in range(limit):
        steps = decoder.step(ids[:, :, -1].flatten(), position)
        totals = (scores[:, :, None] + steps.view(count, size, -1)).flatten(1)
        top, flat = totals.topk(2 * size)
        origins, pieces = flat // steps.shape[1], flat % steps.shape[1]
        ended, which = top.masked_fill(pieces != EOS, NEVER).max(1)
        for row in (ended > best).nonzero()[:, 0].tolist():
            best[row] = ended[row]
            hypotheses[row] = ids[row, origins[row, which[row]], 1:].tolist()
        scores, columns = top.masked_fill(pieces == EOS, NEVER).topk(size)
        origins, pieces = origins.gather(1, columns), pieces.gather(1, columns)
        ids = torch.cat(
            [ids.gather(1, origins[..., None].expand_as(ids)), pieces[..., None]], 2
        )
        if (scores[:, 0] <= best).all():
            break
        decoder.reorder((first + origins).flatten())
    return hypotheses


def padded_batches(
    vocabulary: BaseVocabulary, lines: List[str], size: int, device: torch.device
) -> Iterator[Tuple[np.ndarray, torch.Tensor]]:
    """Yield batches of sources: (the indices of their lines, ids int64 [N, S])."""
    sources = vocabulary.encode_lines(lines)
    for indices in work.in_batches(sources, size):
        ids = pad_with_end([sources[i] for i in indices])
        yield indices, torch.as_tensor(ids, dtype=torch.long).to(device)


def refuse_other_dialects(hp: hparams.HParams) -> None:
    """Refuse a model that `load` does not know.

    Raises:
      ValueError: the model is not of the dialect tensor2tensor.
    """
    row = hp.resolved_dialect
    if not (
        row.norm == "before"
        and row.final_norm
        and row.positions == "halves"
        and row.tied_embeddings
        and hp.joint_vocab
    ):
        raise ValueError(
            "expected a checkpoint of --dialect tensor2tensor, for which "
            f"this loop is written, got {hp.dialect}"
        )


def open_decoding(spec: dict) -> Measure:
    """Return a function that measures translation with our checkpoint."""
    device = set_up(spec)
    hp = hparams.load(spec["logdir"])
    refuse_other_dialects(hp)
    model = Model(dict(vars(hp)), hp.target_vocab_size)
    with torch.no_grad():
        load(model, read(find_checkpoint(spec["logdir"], "best")), hp.decoder_blocks)
    model.to(device).eval()
    source_vocabulary, target_vocabulary, _ = load_vocabularies(spec["logdir"])
    start = PAD if hp.resolved_dialect.begins_with_zeros else BOS

    @torch.inference_mode()
    def translate(lines, batch):
        results = [""] * len(lines)
        for indices, ids in padded_batches(source_vocabulary, lines, batch, device):
            limit = ids.shape[1] + hp.max_extra_length
            hypotheses = (
                greedy(model, ids, limit, start).tolist()
                if spec["search"] == "greedy"
                else beam(model, ids, limit, start, spec["beam_size"])
            )
            for i, hypothesis in zip(indices, hypotheses):
                results[i] = target_vocabulary.decode(hypothesis)
        return results

    return work.measure_decoding(translate, work.test_lines(spec["data"])[0])


if __name__ == "__main__":
    serve({"train": open_training, "decode": open_decoding})
