"""A trunk over bytes: no vocabulary to learn, any text in any language. Token ids are the bytes themselves."""

from __future__ import annotations

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .tokens import BYTE_OF

END = 0  # the byte that ends a document; no text holds it


def byte_tokenizer(after_prompt: str = "") -> PreTrainedTokenizerFast:
    """A tokenizer whose ids are the 256 bytes. `after_prompt` is what a chat prompt ends with; without it, prompts are raw."""
    backend = Tokenizer(models.BPE(vocab=dict(BYTE_OF), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    if after_prompt:
        # As an expression: a template's own last line break would be dropped.
        tokenizer.chat_template = "{{ messages[0]['content'] + " + json.dumps(after_prompt) + " }}"
    return tokenizer


def byte_llama(width: int = 96, layers: int = 2, context: int = 512) -> LlamaForCausalLM:
    """An untrained Llama over bytes: attention heads of 32 dimensions, tied embeddings. 0.25 M parameters at the defaults."""
    config = LlamaConfig(
        vocab_size=256, hidden_size=width, intermediate_size=32 * round(width * 2.75 / 32), num_hidden_layers=layers,
        num_attention_heads=width // 32, num_key_value_heads=width // 32, max_position_embeddings=context, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=END, pad_token_id=None,
        initializer_range=width**-0.5,  # the usual .02 is for wide models: logits of a narrow one would take long to grow
    )  # fmt: skip
    return LlamaForCausalLM(config)
