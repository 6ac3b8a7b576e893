"""The variable names of the original systems: tables from our names to the originals.

Each rule is a regular expression and its replacement; rules are applied in order. The
rules in `BLOCKS` are for the variables of a block in any scope, those in
`VARIABLE_NAMES` for a whole model. To add a system, add a table to `VARIABLE_NAMES` and
a row to `dialects`.
"""

import json
import re
from typing import Dict, List, Sequence, Tuple

OUR_LAYERS = ("q", "k", "v", "o", "inner", "outer")


def _rename_layers(*names):
    """Return the rules that rename the dense layers of a block, in our order."""
    return tuple(
        (rf"(^|/){our_name}/(kernel|bias)$", rf"\1{name}/\2")
        for our_name, name in zip(OUR_LAYERS, names)
    )


# The default names of tf.layers and tf.Variable.
LEGACY_BLOCKS = _rename_layers(
    "dense", "dense_1", "dense_2", "dense_3", "conv1d", "conv1d_1"
) + ((r"(^|/)beta$", r"\1Variable"), (r"(^|/)gamma$", r"\1Variable_1"))

LEGACY = (
    (r"^encoder/embedding/", "encoder/enc_embed/"),
    (r"^decoder/embedding/", "decoder/dec_embed/"),
    (r"^(enc|dec)oder/positional_encoding/", r"\1oder/\1_pe/"),
    (r"^decoder/output/", "dense/"),
    (r"/block_", "/num_blocks_"),
    (r"/cross_attention/", "/vanilla_attention/"),
)

TUTORIAL = (
    LEGACY
    + (
        (r"^(encoder/.*)/self_attention/", r"\1/mulithead_attention/"),
        (r"/feedforward/", "/multihead_attention/"),
    )
    + LEGACY_BLOCKS
)

# In the encoder, attention and feed-forward use the same scope. TensorFlow numbers the
# second use of the scope, but only in the names of anonymous variables.
KYUBYONG_LEGACY = (
    LEGACY
    + (
        (r"^(encoder/.*)/feedforward/ln/", r"\1/multihead_attention_1/ln/"),
        (r"^(encoder/.*)/self_attention/", r"\1/multihead_attention/"),
        (r"/feedforward/", "/multihead_attention/"),
    )
    + LEGACY_BLOCKS
)

KYUBYONG_BLOCKS = _rename_layers(
    "dense", "dense_1", "dense_2", "dense_3", "dense", "dense_1"
) + (
    (r"(^|/)shared_weight_matrix/lookup_table$", r"\1shared_weight_matrix/weight_mat"),
)

KYUBYONG = (
    (r"^embedding/", "shared_weight_matrix/"),
    (r"/block_", "/num_blocks_"),
    (r"^(encoder/.*)/self_attention/", r"\1/multihead_attention/"),
    (r"/cross_attention/", "/vanilla_attention/"),
    (r"/feedforward/", "/positionwise_feedforward/"),
) + KYUBYONG_BLOCKS

# `transformer.compat.tensor2tensor` itself gives all others their original names.
TENSOR2TENSOR_BLOCKS = (
    (r"(^|/)positions/(key|value)s$", r"\1relative_positions_\2s/embeddings"),
    (r"(^|/)relative_bias/keys$", r"\1key_relative_embeddings"),
)

TENSOR2TENSOR = (
    # One table for both languages, or one for each; their sizes distinguish them.
    (
        r"^((en|de)coder/)?embedding/lookup_table$",
        "transformer/symbol_modality_{V}_{D}/shared/weights_",
    ),  # followed by 0, 1, ...
    (r"^encoder/target_space$", "transformer/body/target_space_embedding/kernel"),
    (r"^(en|de)coder/", r"transformer/body/\1coder/"),
    (r"/block_", "/layer_"),
    (r"/cross_attention/", "/encdec_attention/"),
    (r"_attention/([qkvo])/", r"_attention/multihead_attention/\1/"),
    (
        r"/relative/(key|value)s$",
        "/multihead_attention/dot_product_attention_relative/"
        r"relative_positions_\1s/embeddings",
    ),
    (r"/feedforward/", "/ffn/"),
    (r"/ln/gamma$", "/layer_prepostprocess/layer_norm/layer_norm_scale"),
    (r"/ln/beta$", "/layer_prepostprocess/layer_norm/layer_norm_bias"),
) + _rename_layers("q", "k", "v", "output_transform", "conv1", "conv2")

# The first version normalizes after each sub-layer, under another name.
TENSOR2TENSOR_V1 = TENSOR2TENSOR + ((r"/layer_prepostprocess/", "/layer_postprocess/"),)

# The functions open no scopes, and their variables are anonymous.
BOJONE_BLOCKS = (
    (r"(^|/)[^/]+/[qkv]/kernel$", r"\1Variable"),
    (r"(^|/)[^/]+/(kernel|bias)$", r"\1Variable"),
)

# Module of `transformer.compat` → rules.
BLOCKS = {
    "tutorial": LEGACY_BLOCKS,
    "kyubyong_legacy": LEGACY_BLOCKS,
    "sasrec": LEGACY_BLOCKS,
    "interhat": LEGACY_BLOCKS,
    "bojone": BOJONE_BLOCKS,
    "kyubyong": KYUBYONG_BLOCKS,
    "tensor2tensor": TENSOR2TENSOR_BLOCKS,
}

VARIABLE_NAMES = {
    "tutorial": TUTORIAL,
    "kyubyong_legacy": KYUBYONG_LEGACY,
    "kyubyong": KYUBYONG,
    "tensor2tensor": TENSOR2TENSOR,
    "tensor2tensor_v1": TENSOR2TENSOR_V1,
}

# Dialects that are versions of another dialect; the names in a checkpoint decide.
VERSION_OF = {"tensor2tensor_v1": "tensor2tensor"}


def dialects_by_system() -> Dict[str, List[str]]:
    """Return the dialects that the checkpoints of each system may use, sorted."""
    versions: Dict[str, List[str]] = {}
    for dialect in sorted(VARIABLE_NAMES):
        versions.setdefault(VERSION_OF.get(dialect, dialect), []).append(dialect)
    return versions


def read_rules(path: str) -> List[Tuple[str, str]]:
    """Read renaming rules from a file, a JSON object, in its order.

    Raises:
      ValueError: the file has no JSON object, or a regular expression is invalid.
    """
    with open(path, encoding="utf-8") as file:
        try:
            rules = list(json.load(file).items())
            for pattern, replacement in rules:
                re.sub(pattern, replacement, "")
        except (ValueError, AttributeError, TypeError, re.error) as error:
            raise ValueError(
                f"{path}: expected a JSON object "
                '{"regular expression": "replacement", ...}'
                f", got something else ({error})"
            ) from error
    return rules


def apply_rules(name: str, rules: Sequence) -> str:
    """Apply renaming rules to a name in their order."""
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def original_name(name: str, dialect: str, shape: Sequence) -> str:
    """Return the name that the original system gives to our variable of this shape."""
    name = apply_rules(name, VARIABLE_NAMES[dialect])
    return name.replace("{V}", str(shape[0])).replace("{D}", str(shape[-1]))
