"""Makes families.safetensors: weights, logits, loss and gradient norm of tiny models of each family."""

import torch
import transformers
from torch.nn import functional as F

from golden_common import Inputs, save

VOCAB, TOKENS = 24, 12
SIZES = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8, "rope_theta": 500000.0}
T = transformers
CASES = {
    "llama3": (T.LlamaConfig, dict(head_dim=8, rope_parameters=LLAMA3, eos_token_id=[3, 5])),
    "llama_bias": (T.LlamaConfig, dict(attention_bias=True, mlp_bias=True)),
    "llama_linear": (T.LlamaConfig, dict(attention_bias=True, rope_parameters={
        "rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})),
    "mistral": (T.MistralConfig, dict(sliding_window=5)),
    "qwen2": (T.Qwen2Config, dict()),
    "qwen2_window": (T.Qwen2Config, dict(
        use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen3": (T.Qwen3Config, dict(head_dim=8, tie_word_embeddings=True)),
    "gemma2": (T.Gemma2Config, dict(head_dim=8, sliding_window=5, query_pre_attn_scalar=6,
                                    attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma3": (T.Gemma3TextConfig, dict(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=6,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0,
                                            "rope_theta": 1000000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
    "phi3": (T.Phi3Config, dict(sliding_window=5, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    "olmo2": (T.Olmo2Config, dict()),
    "gpt_neox": (T.GPTNeoXConfig, dict(rotary_pct=0.5)),
    "gpt_neox_sequential": (T.GPTNeoXConfig, dict(use_parallel_residual=False, rotary_pct=0.5)),
}


def initialise(model, inputs):
    """Wide weights, and biases and norm weights away from their neutral values."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.ndim > 1:
                parameter.copy_(inputs.normal(*parameter.shape, scale=0.3))
            else:
                parameter.add_(inputs.normal(*parameter.shape, scale=0.2))


def record(case, config, inputs, tensors):
    model = T.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    initialise(model, inputs)
    tokens = inputs.integers(2, TOKENS + 1, high=VOCAB)
    logits = model(tokens[:, :-1], use_cache=False).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))
    loss.backward()
    norm = torch.stack([p.grad.double().square().sum() for p in model.parameters()]).sum().sqrt()
    state = model.state_dict()
    if config.tie_word_embeddings:
        state = {name: t for name, t in state.items() if name != "lm_head.weight"}
    if config.model_type == "gpt_neox":  # the name in files
        state["embed_out.weight"] = state.pop("lm_head.weight")
    for name, tensor in state.items():
        tensors[f"{case}/{name}"] = tensor.detach().clone()
    tensors[f"run/{case}/tokens"] = tokens
    tensors[f"run/{case}/logits"] = logits.detach()
    tensors[f"run/{case}/loss"] = loss.detach().double()
    tensors[f"run/{case}/grad_norm"] = norm
    print(f"  {case}: loss {loss.item():.4f}, gradient norm {norm.item():.4f}")


def main():
    inputs, tensors, configs = Inputs(20240701), {}, {}
    torch.manual_seed(0)
    for case, (config_class, changes) in CASES.items():
        config = config_class(**{**SIZES, **changes})
        record(case, config, inputs, tensors)
        known = config.to_dict()
        skipped = ("transformers_version", "id2label", "label2id")
        configs[case] = {k: v for k, v in known.items() if k[0] != "_" and k not in skipped}
    metadata = {**{f"config/{case}": config for case, config in configs.items()},
                "oracle": f"torch {torch.__version__}, transformers {transformers.__version__}"}
    save("families.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
