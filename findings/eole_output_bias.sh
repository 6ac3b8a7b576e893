#!/usr/bin/env bash
# eole 0.6.4: `add_qkvbias` gives the decoder's attention an output bias, the encoder's none.
# Guessed: both have one, since the setting is said to include the output projection. Seen: encoder
# without, decoder with; the model's own `add_final_linear_bias` is true, that of the encoder false.
# Met by: whoever loads another toolkit's weights into eole. Naming add_final_linear_bias helps.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet eole==0.6.4 torch==2.13.0

env/bin/python -W ignore - 2> /dev/null <<'PYTHON'
import pyonmttok
from eole.config.models import TransformerModelConfig
from eole.config.training import TrainingConfig
from eole.models.model import EncoderDecoderModel

specials = {"pad_token": "<blank>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
pieces = pyonmttok.build_vocab_from_tokens([*specials.values(), "a", "b"])
vocabularies = {"src": pieces, "tgt": pieces, "specials": specials, "decoder_start_token": "<s>"}


def biases(**settings):
    config = TransformerModelConfig(layers=1, hidden_size=8, heads=2, transformer_ff=8, **settings)
    names = EncoderDecoderModel.build(config, vocabularies, TrainingConfig()).state_dict()
    found = [f"{stack}.transformer_layers.0.self_attn.final_linear.bias" in names
             for stack in ("encoder", "decoder")]
    print(settings, "output bias of (encoder, decoder):", found)
    return found


assert biases(add_qkvbias=True) == [False, True]
assert biases(add_qkvbias=True, add_final_linear_bias=True) == [True, True]
PYTHON
