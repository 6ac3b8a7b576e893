"""Drop-in replacements for the modules of published TF1 programs.

Each module has the names, signatures, defaults, mask polarity, return values and
variables of one original program. All formulas are those of our blocks.

    from transformer.compat.sasrec import *        # instead of: from modules import *

    | module          | source                                                        |
    |-----------------|---------------------------------------------------------------|
    | tutorial        | princewen/tensorflow_practice, Basic-Transformer-Demo         |
    | kyubyong_legacy | Kyubyong/transformer, tf1.2_legacy (2017)                     |
    | kyubyong        | Kyubyong/transformer (2019)                                   |
    | sasrec          | kang205/SASRec                                                |
    | functional_time | Self-attention with Functional Time Representation Learning   |
    | interhat        | zyli93/InterHAt                                               |
    | bojone          | bojone/attention, attention_tf.py                             |
    | bojone.layers   | bojone/attention, attention_keras.py                          |
    | tensor2tensor   | tensor2tensor 1.15.7: common_attention, common_layers,        |
    |                 | transformer_layers, beam_search                               |

Variables have their original names and shapes, so `tf.train.Saver` restores checkpoints
of the original program.
"""
