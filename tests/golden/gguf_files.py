"""Makes gguf/: tiny models of each architecture as GGUF files, written by the gguf package, and gguf.safetensors: their logits.

PyTorch computes the logits from the weights that the files hold, decoded by the gguf package where they are quantized.
scripts/check-gguf shows that llama.cpp reads such files as these: names, order of rows and added ones are the same there.
"""

import re

import gguf
import numpy as np
import torch
import transformers as T

from families import LLAMA3, SIZES, TOKENS, VOCAB, initialise
from golden_common import HERE, Inputs, save

WIDE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=1)  # rows of whole blocks
CASES = {  # a configuration, the architecture, the type of matrices
    "gpt2": (T.GPT2Config(n_layer=2, n_embd=16, n_head=4, n_positions=16, vocab_size=VOCAB), "gpt2", "F32"),
    "llama3": (T.LlamaConfig(**{**SIZES, "head_dim": 8, "rope_parameters": LLAMA3}), "llama", "F32"),
    "llama_bias": (T.LlamaConfig(**{**SIZES, "attention_bias": True, "mlp_bias": True}), "llama", "F32"),
    "llama_q8_0": (T.LlamaConfig(**{**SIZES, **WIDE}), "llama", "Q8_0"),
    "llama_q4_0": (T.LlamaConfig(**{**SIZES, **WIDE, "tie_word_embeddings": True}), "llama", "Q4_0"),
    "mistral_bf16": (T.MistralConfig(**{**SIZES, "sliding_window": None}), "llama", "BF16"),
    "qwen2": (T.Qwen2Config(**SIZES), "qwen2", "F32"),
    "qwen3_f16": (T.Qwen3Config(**{**SIZES, "head_dim": 8, "tie_word_embeddings": True}), "qwen3", "F16"),
    "gemma2": (T.Gemma2Config(**{**SIZES, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8,
                                 "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}), "gemma2", "F32"),
    "gemma3": (T.Gemma3TextConfig(**{**SIZES, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8,
                                     "layer_types": ["sliding_attention", "full_attention"]}), "gemma3", "F32"),
    "phi3": (T.Phi3Config(**{**SIZES, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}), "phi3", "F32"),
    "olmo2": (T.Olmo2Config(**SIZES), "olmo2", "F32"),
    "gptneox": (T.GPTNeoXConfig(**{**SIZES, "rotary_pct": 0.5}), "gptneox", "F32"),
}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}
MODULES = {  # of Hugging Face, by the last parts of a name
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v",
    "o_proj": "attn_output", "q_norm": "attn_q_norm", "k_norm": "attn_k_norm", "gate_proj": "ffn_gate",
    "up_proj": "ffn_up", "down_proj": "ffn_down", "qkv_proj": "attn_qkv", "gate_up_proj": "ffn_up",
    "embed_in": "token_embd", "final_layer_norm": "output_norm", "query_key_value": "attn_qkv", "dense": "attn_output",
    "dense_h_to_4h": "ffn_up", "dense_4h_to_h": "ffn_down",
}


def gguf_name(name, architecture):
    module, suffix = name.rsplit(".", 1)
    layer = re.search(r"\.(\d+)\.", name)
    table = {**MODULES, **(SANDWICH if architecture in ("gemma2", "gemma3", "olmo2") else {})}
    parts = module.split(".")
    key = next(k for k in (".".join(parts[-2:]), parts[-1]) if k in table)
    return (f"blk.{layer[1]}." if layer else "") + table[key] + "." + suffix


def interleaved(weight, heads):
    """Row j of the first half of a head beside row j of the second."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def arranged(name, weight, config, architecture):
    """A weight as files of the architecture have it."""
    if architecture == "gpt2" and weight.ndim == 2 and ".c_" in name:
        return weight.T
    if architecture == "llama" and ".q_proj." in name:
        return interleaved(weight, config.num_attention_heads)
    if architecture == "llama" and ".k_proj." in name:
        return interleaved(weight, config.num_key_value_heads)
    if architecture == "gptneox" and "query_key_value" in name:
        heads = config.num_attention_heads
        return weight.reshape(heads, 3, -1, *weight.shape[1:]).swapaxes(0, 1).reshape(weight.shape)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return weight + np.float32(1)
    return weight


def add_keys(writer, case, config, architecture):
    writer.add_name(case)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    grouped = architecture not in ("gpt2", "gptneox")
    writer.add_head_count_kv(config.num_key_value_heads if grouped else config.num_attention_heads)
    if architecture in ("gpt2", "gptneox"):
        writer.add_layer_norm_eps(getattr(config, "layer_norm_epsilon", getattr(config, "layer_norm_eps", None)))
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if head_dim * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if architecture == "gptneox":
        writer.add_parallel_residual(config.use_parallel_residual)
    if architecture != "gpt2":
        rope = config.rope_parameters
        full = rope.get("full_attention", rope)
        writer.add_rope_freq_base(full["rope_theta"])
        writer.add_rope_dimension_count(int(head_dim * full.get("partial_rotary_factor", 1)))
    if architecture.startswith("gemma"):
        writer.add_sliding_window(config.sliding_window)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture == "gemma3":
        writer.add_uint32("gemma3.attention.sliding_window_pattern", 2)
        writer.add_float32("gemma3.rope.freq_base_swa", 10000.0)


def llama3_divisors(config, head_dim):
    """By the formula of Llama 3's own code."""
    frequencies = 1 / config.rope_parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).double() / head_dim)
    length = LLAMA3["original_max_position_embeddings"]
    result = []
    for frequency in frequencies.tolist():
        wavelength = 2 * np.pi / frequency
        if wavelength < length / LLAMA3["high_freq_factor"]:
            result.append(1.0)
        elif wavelength > length / LLAMA3["low_freq_factor"]:
            result.append(LLAMA3["factor"])
        else:
            smooth = ((length / wavelength - LLAMA3["low_freq_factor"])
                      / (LLAMA3["high_freq_factor"] - LLAMA3["low_freq_factor"]))
            result.append(1 / ((1 - smooth) / LLAMA3["factor"] + smooth))
    return np.float32(result)


def quantized(weight, kind):
    """Bytes of a matrix in its type, and its values."""
    data = gguf.quants.quantize(weight, kind)
    return data, np.float32(gguf.quants.dequantize(data, kind)).reshape(weight.shape)


def record(case, inputs, tensors):
    config, architecture, type_name = CASES[case]
    model = T.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    initialise(model, inputs)
    writer = gguf.GGUFWriter(HERE / "gguf" / f"{case}.gguf", architecture)
    add_keys(writer, case, config, architecture)
    kind = gguf.GGMLQuantizationType[type_name]
    if case == "llama3":
        writer.add_rope_scaling_orig_ctx_len(LLAMA3["original_max_position_embeddings"])
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config, config.head_dim))
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied head is not among them
            if parameter.ndim == 2 and "wpe" not in name:
                plain = parameter.numpy().copy()
                parameter.copy_(torch.from_numpy(quantized(plain, kind)[1]))
                data = quantized(np.ascontiguousarray(arranged(name, plain, config, architecture)), kind)[0]
                writer.add_tensor(gguf_name(name, architecture), data, raw_dtype=None if type_name == "F32" else kind)
            else:
                data = np.ascontiguousarray(arranged(name, parameter.numpy(), config, architecture))
                writer.add_tensor(gguf_name(name, architecture), data)
        tokens = inputs.integers(2, TOKENS, high=VOCAB)
        tensors[f"{case}/tokens"] = tokens
        tensors[f"{case}/logits"] = model(tokens, use_cache=False).logits
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    inputs, tensors = Inputs(20261118), {}
    torch.manual_seed(0)
    for case in CASES:
        record(case, inputs, tensors)
    save("gguf.safetensors", tensors, {
        "oracle": f"torch {torch.__version__}, transformers {T.__version__}, gguf 0.19.0"})


if __name__ == "__main__":
    main()
