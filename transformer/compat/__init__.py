"""The modules of other people's Transformers, by one import.

Each file has the names, signatures, defaults, mask polarity, return values and
variables of one source, made of our blocks; no formula is here.

    from transformer.compat.sasrec import *        # instead of: from modules import *

    | file            | source                                                        |
    |-----------------|---------------------------------------------------------------|
    | tutorial        | princewen/tensorflow_practice, Basic-Transformer-Demo         |
    | kyubyong_legacy | Kyubyong/transformer, tf1.2_legacy (2017)                     |
    | kyubyong        | Kyubyong/transformer (2019)                                   |
    | sasrec          | kang205/SASRec                                                |
    | functional_time | Self-attention with Functional Time Representation Learning   |
    | interhat        | zyli93/InterHAt                                               |
    | bojone          | bojone/attention, attention_tf.py                             |
    | bojone_keras    | bojone/attention, attention_keras.py                          |
    | tensor2tensor   | tensor2tensor 1.15.7, common_attention and common_layers      |

Variables have the names and shapes that the source gives them: its checkpoints are
restored by `tf.train.Saver`, or by `restore`, which says what does not fit.
"""

from transformer.compat.restoring import restore

__all__ = ["restore"]
