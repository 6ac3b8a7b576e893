"""Worker for Hugging Face's Marian.

Marian always normalizes after the sub-layers, so it cannot load our checkpoint: it
decodes with random weights, as many pieces as the reference has.
"""

from typing import Dict

import torch
import work
from pytorch import measure_training, padded_batches, set_up
from transformers import MarianConfig, MarianMTModel
from worker import Measure, serve

from transformer import hparams
from transformer.text.vocabulary import BOS, EOS, PAD, load_vocabularies


def make_model(sizes: Dict[str, int], vocab_size: int) -> MarianMTModel:
    """Return a MarianMTModel with the same sizes."""
    stacks = {
        f"{stack}_{name}": sizes[setting]
        for stack in ("encoder", "decoder")
        for name, setting in (
            ("layers", "num_blocks"),
            ("ffn_dim", "d_ff"),
            ("attention_heads", "num_heads"),
        )
    }
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocab_size,
            d_model=sizes["d_model"],
            dropout=work.DROPOUT,
            attention_dropout=work.DROPOUT,
            activation_dropout=work.DROPOUT,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            **stacks,
        )
    )


def open_training(spec: dict) -> Measure:
    """Return a function that measures training."""
    set_up(spec)
    model = make_model(spec["sizes"], spec["vocab_size"])

    def forward(source, target_in):
        return model(
            input_ids=source,
            attention_mask=source != PAD,
            decoder_input_ids=target_in,
            use_cache=False,
        ).logits

    return measure_training(spec, model, forward)


def open_decoding(spec: dict) -> Measure:
    """Return a function that measures translation."""
    device, hp = set_up(spec), hparams.load(spec["logdir"])
    model = make_model(vars(hp), hp.target_vocab_size).to(device).eval()
    source_vocabulary, target_vocabulary, _ = load_vocabularies(spec["logdir"])
    test_sources, references = work.test_lines(spec["data"])
    lengths = dict(
        zip(
            test_sources,
            (len(ids) + 1 for ids in target_vocabulary.encode_lines(references)),
        )
    )
    beam_size = spec["beam_size"]

    @torch.inference_mode()
    def translate(lines, batch):
        for indices, ids in padded_batches(source_vocabulary, lines, batch, device):
            max_length = max(lengths[lines[i]] for i in indices)
            model.generate(
                ids,
                attention_mask=(ids != PAD).long(),
                do_sample=False,
                num_beams=beam_size,
                min_new_tokens=max_length,
                max_new_tokens=max_length,
            )
        return [lengths[line] for line in lines]

    return work.measure_decoding(translate, test_sources)


if __name__ == "__main__":
    serve({"train": open_training, "decode": open_decoding})
