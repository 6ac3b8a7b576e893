"""How the original systems name their variables: tables from our names to theirs.

Each rule is a regular expression and its replacement; they are applied in order. A
further system is a further table in `SOURCES`, beside its row in `dialects`.
"""

import re
from typing import Dict, List, Sequence

TUTORIAL = (
    (r"^encoder/embedding/", "encoder/enc_embed/"),
    (r"^decoder/embedding/", "decoder/dec_embed/"),
    (r"^(enc|dec)oder/positional_encoding/", r"\1oder/\1_pe/"),
    (r"^decoder/output/", "dense/"),
    (r"/block_", "/num_blocks_"),
    (r"^(encoder/.*)/self_attention/", r"\1/mulithead_attention/"),
    (r"/cross_attention/", "/vanilla_attention/"),
    (r"/q/", "/dense/"),
    (r"/k/", "/dense_1/"),
    (r"/v/", "/dense_2/"),
    (r"/feedforward/inner/", "/multihead_attention/conv1d/"),
    (r"/feedforward/outer/", "/multihead_attention/conv1d_1/"),
    (r"/feedforward/", "/multihead_attention/"),
    (r"/ln/beta$", "/ln/Variable"),
    (r"/ln/gamma$", "/ln/Variable_1"),
)

KYUBYONG = (
    (r"^embedding/lookup_table$", "shared_weight_matrix/weight_mat"),
    (r"/block_", "/num_blocks_"),
    (r"^(encoder/.*)/self_attention/", r"\1/multihead_attention/"),
    (r"/cross_attention/", "/vanilla_attention/"),
    (r"/q/", "/dense/"),
    (r"/k/", "/dense_1/"),
    (r"/v/", "/dense_2/"),
    (r"/feedforward/inner/", "/positionwise_feedforward/dense/"),
    (r"/feedforward/outer/", "/positionwise_feedforward/dense_1/"),
    (r"/feedforward/", "/positionwise_feedforward/"),
)

TENSOR2TENSOR = (
    # One table for both languages, or one for each, told apart by its size.
    (
        r"^((en|de)coder/)?embedding/lookup_table$",
        "transformer/symbol_modality_{V}_{D}/shared/weights_",
    ),  # followed by 0, 1, ...
    (r"^encoder/target_space$", "transformer/body/target_space_embedding/kernel"),
    (r"^(en|de)coder/", r"transformer/body/\1coder/"),
    (r"/block_", "/layer_"),
    (r"/cross_attention/", "/encdec_attention/"),
    (r"_attention/([qkv])/", r"_attention/multihead_attention/\1/"),
    (
        r"/relative/(key|value)s$",
        "/multihead_attention/dot_product_attention_relative/"
        r"relative_positions_\1s/embeddings",
    ),
    (r"/o/kernel$", "/multihead_attention/output_transform/kernel"),
    (r"/feedforward/inner/", "/ffn/conv1/"),
    (r"/feedforward/outer/", "/ffn/conv2/"),
    (r"/feedforward/", "/ffn/"),
    (r"/ln/gamma$", "/layer_prepostprocess/layer_norm/layer_norm_scale"),
    (r"/ln/beta$", "/layer_prepostprocess/layer_norm/layer_norm_bias"),
)

# Its first version normalizes after each sub-layer, with another name.
TENSOR2TENSOR_V1 = TENSOR2TENSOR + ((r"/layer_prepostprocess/", "/layer_postprocess/"),)

SOURCES = {
    "tutorial": TUTORIAL,
    "kyubyong": KYUBYONG,
    "tensor2tensor": TENSOR2TENSOR,
    "tensor2tensor_v1": TENSOR2TENSOR_V1,
}

# Dialects that are versions of another; the names in a checkpoint tell which.
VERSION_OF = {"tensor2tensor_v1": "tensor2tensor"}


def systems() -> Dict[str, List[str]]:
    """Return system → the dialects that its checkpoints may have, sorted."""
    versions = {}
    for dialect in sorted(SOURCES):
        versions.setdefault(VERSION_OF.get(dialect, dialect), []).append(dialect)
    return versions


def original_name(name: str, dialect: str, shape: Sequence) -> str:
    """Return the name in the original system of our variable `name` of a shape."""
    for pattern, replacement in SOURCES[dialect]:
        name = re.sub(pattern, replacement, name)
    return name.replace("{V}", str(shape[0])).replace("{D}", str(shape[-1]))
