"""Worker for eole 0.6.4, the successor of OpenNMT-py.

It trains and translates with its own modules and search. It needs another protobuf than
the packages of this project may choose, and so an environment of its own.
"""

from typing import Dict

import eole.models.model  # before TensorFlow, which `work` imports
import numpy as np
import pyonmttok
import torch
import work
from eole.config.models import TransformerModelConfig
from eole.config.run import PredictConfig
from eole.config.training import TrainingConfig
from eole.predict.beam_search import GNMTGlobalScorer
from eole.predict.translator import Translator
from pytorch import measure_training, padded_batches, refuse_other_dialects, set_up
from worker import Measure, serve

from transformer import hparams
from transformer.compat.convert import read
from transformer.logdir.manifests import find_checkpoint
from transformer.text.pieces import BOS, EOS, PAD, UNK
from transformer.text.vocabulary import load_vocabularies

EncoderDecoderModel = eole.models.model.EncoderDecoderModel
SPECIALS = {PAD: "<blank>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
NEVER = -1e9  # the bias of pieces that are never translations


def make_vocabularies(size: int) -> dict:
    """Make what eole calls the vocabularies: pieces with our ids."""
    pieces = [SPECIALS.get(i, f"piece{i}") for i in range(size)]
    vocabulary = pyonmttok.build_vocab_from_tokens(pieces)
    specials = {
        "pad_token": SPECIALS[PAD],
        "unk_token": SPECIALS[UNK],
        "bos_token": SPECIALS[BOS],
        "eos_token": SPECIALS[EOS],
    }
    return {
        "src": vocabulary,
        "tgt": vocabulary,
        "specials": specials,
        "decoder_start_token": SPECIALS[BOS],
    }


def make_config(sizes: Dict[str, int]) -> TransformerModelConfig:
    """Make the configuration of a model with the same sizes: pre-norm, tied."""
    return TransformerModelConfig(
        layers=sizes["num_blocks"],
        hidden_size=sizes["d_model"],
        heads=sizes["num_heads"],
        transformer_ff=sizes["d_ff"],
        norm_eps=1e-6,
        add_qkvbias=True,
        add_final_linear_bias=True,
        add_ffnbias=True,
        share_embeddings=True,
        share_decoder_embeddings=True,
        embeddings={
            "word_vec_size": sizes["d_model"],
            "position_encoding_type": "SinusoidalConcat",
        },
    )


def make_model(config: TransformerModelConfig, vocab_size: int) -> EncoderDecoderModel:
    """Make a model with random weights."""
    running = TrainingConfig(
        dropout=[work.DROPOUT], attention_dropout=[work.DROPOUT], compute_dtype="fp32"
    )
    return EncoderDecoderModel.for_training(
        config, make_vocabularies(vocab_size), running, device_id=-1
    )


def open_training(spec: dict) -> Measure:
    """Return a function that measures training."""
    set_up(spec)
    model = make_model(make_config(spec["sizes"]), spec["vocab_size"])

    def forward(source, target_in):
        # It takes the target with its end, and leaves out the last column.
        target = torch.nn.functional.pad(target_in, (0, 1), value=PAD)
        lengths = (source != PAD).sum(1)
        return model.generator(model(source, target, lengths).dec_out)

    return measure_training(spec, model, forward)


def load(model: EncoderDecoderModel, variables: Dict[str, np.ndarray]) -> None:
    """Copy the variables of our model of the dialect tensor2tensor into `model`."""
    state = model.state_dict()

    def put_dense(name, scope):
        state[f"{name}.weight"].copy_(torch.as_tensor(variables[f"{scope}/kernel"].T))
        bias = variables.get(f"{scope}/bias", np.float32(0))
        state[f"{name}.bias"].copy_(torch.as_tensor(bias))

    def put_norm(name, scope):
        state[f"{name}.weight"].copy_(torch.as_tensor(variables[f"{scope}/gamma"]))
        state[f"{name}.bias"].copy_(torch.as_tensor(variables[f"{scope}/beta"]))

    table = torch.as_tensor(variables["embedding/lookup_table"]).clone()
    table[[PAD, BOS]] = 0  # the decoder of this dialect begins with zeros
    state["src_emb.embeddings.weight"].copy_(table)  # shared with the other two
    state["generator.bias"].zero_()
    state["generator.bias"][[PAD, BOS]] = NEVER
    state["src_emb.pe.pe"] += torch.as_tensor(
        variables.get("encoder/target_space", np.float32(0))
    )
    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        put_norm(f"{stack}.layer_norm", f"{stack}/ln")
        attentions = {"self_attention": ("input_layernorm", "self_attn")}
        if stack == "decoder":
            attentions["cross_attention"] = ("precontext_layernorm", "context_attn")
        for i in range(len(layers.transformer_layers)):
            layer, block = f"{stack}.transformer_layers.{i}", f"{stack}/block_{i}"
            for scope, (norm, attention) in attentions.items():
                put_norm(f"{layer}.{norm}", f"{block}/{scope}/ln")
                for name, projection in (
                    ("linear_query", "q"),
                    ("linear_keys", "k"),
                    ("linear_values", "v"),
                    ("final_linear", "o"),
                ):
                    put_dense(
                        f"{layer}.{attention}.{name}", f"{block}/{scope}/{projection}"
                    )
            put_norm(f"{layer}.post_attention_layernorm", f"{block}/feedforward/ln")
            put_dense(f"{layer}.mlp.gate_up_proj", f"{block}/feedforward/inner")
            put_dense(f"{layer}.mlp.down_proj", f"{block}/feedforward/outer")


def open_decoding(spec: dict) -> Measure:
    """Return a function that measures translation with our checkpoint."""
    device = set_up(spec)
    hp = hparams.load(spec["logdir"])
    refuse_other_dialects(hp)
    config, vocabularies = (
        make_config(vars(hp)),
        make_vocabularies(hp.target_vocab_size),
    )
    model = make_model(config, hp.target_vocab_size)
    with torch.no_grad():
        load(model, read(find_checkpoint(spec["logdir"], "best")))
    model.eval()
    model.update_dropout(0.0, 0.0)
    predict = PredictConfig(
        model_path="none",  # the model is given
        src="none",
        model=config,
        beam_size=spec["beam_size"],
        length_penalty="none",
        alpha=0.0,
        max_length_ratio=0,
        gpu_ranks=[],
        compute_dtype="fp32",
    )
    translator = Translator(
        model,
        vocabularies,
        predict,
        config,
        device_id=-1,
        global_scorer=GNMTGlobalScorer.from_config(predict),
    )
    translator._log = lambda message: None
    source_vocabulary, target_vocabulary, _ = load_vocabularies(spec["logdir"])

    def translate(lines, batch):
        results = [""] * len(lines)
        for indices, ids in padded_batches(source_vocabulary, lines, batch, device):
            translator.max_length = ids.shape[1] + hp.max_extra_length
            answer = translator.predict_batch(
                {
                    "src": ids,
                    "srclen": (ids != PAD).sum(1),
                    "ind_in_bucket": list(range(len(ids))),
                },
                attn_debug=False,
            )
            for i, hypotheses in zip(indices, answer["predictions"]):
                pieces = [x for x in hypotheses[0].tolist() if x != EOS]
                results[i] = target_vocabulary.decode(pieces)
        return results

    return work.measure_decoding(translate, work.test_lines(spec["data"])[0])


if __name__ == "__main__":
    serve({"train": open_training, "decode": open_decoding})
