"""Makes lora_run.safetensors: adapters of the PEFT package, trained for 20 steps in f64."""

import peft
import torch
import transformers

from golden_common import Inputs, compact, save

SEED = 20261116
VOCAB, WIDTH, CONTEXT, BATCH, STEPS = 48, 16, 8, 2, 20
LR, WEIGHT_DECAY, CLIP, BETAS = 2e-2, 0.1, 1.0, (0.9, 0.95)
MODERN = dict(num_hidden_layers=2, hidden_size=WIDTH, num_attention_heads=4, intermediate_size=24,
              max_position_embeddings=CONTEXT, vocab_size=VOCAB, bos_token_id=None,
              eos_token_id=None, pad_token_id=None)
# Parts of packed projections, [in, out] weights, rows that go head by head, and ranks of their own.
RUNS = {
    "llama": (transformers.LlamaConfig(num_key_value_heads=2, **MODERN),
              dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj"])),
    "gpt2": (transformers.GPT2Config(n_layer=2, n_embd=WIDTH, n_head=4, n_positions=CONTEXT,
                                     vocab_size=VOCAB, bos_token_id=None, eos_token_id=None,
                                     resid_pdrop=0, embd_pdrop=0, attn_pdrop=0),
             dict(r=3, lora_alpha=6, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)),
    "gpt_neox": (transformers.GPTNeoXConfig(**{**MODERN, "num_attention_heads": 2}),
                 dict(r=2, lora_alpha=4, target_modules=["query_key_value", "dense_4h_to_h"])),
}


def run(inputs, config, lora, tensors, name):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for key, parameter in sorted(model.named_parameters()):
        shift = float(parameter.ndim == 1 and key.endswith("weight"))
        parameter.data = inputs.normal(*parameter.shape, scale=0.2, shift=shift)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    saved = {"lm_head.weight": "embed_out.weight"} if name == "gpt_neox" else {}  # as in files
    tensors.update({f"{name}/{saved.get(k, k)}": v.clone() for k, v in model.state_dict().items()
                    if k not in tied and v.is_floating_point()})
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0,
                                                         **lora))
    for key, parameter in sorted(adapted.named_parameters()):
        if "lora_" in key:
            parameter.data = inputs.normal(*parameter.shape, scale=0.2)
    start = peft.get_peft_model_state_dict(adapted)
    tensors.update({f"{name}/start/{k}": v.clone() for k, v in start.items()})
    adapted = adapted.double().train()
    trained = [p for p in adapted.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, betas=BETAS, weight_decay=WEIGHT_DECAY,
                                  foreach=False)
    tokens = inputs.integers(STEPS, BATCH, CONTEXT + 1, high=VOCAB)
    losses = []
    for rows in tokens:
        logits = adapted(rows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False)
        optimizer.step()
        losses.append(loss.item())
    tensors[f"run/{name}/tokens"] = tokens
    tensors[f"run/{name}/loss"] = torch.tensor(losses, dtype=torch.float64)
    final = peft.get_peft_model_state_dict(adapted)
    tensors.update({f"run/{name}/final/{k}": v.float() for k, v in final.items()})
    print(name, "%.4f" % losses[0], "->", "%.4f" % losses[-1])


def main():
    inputs, tensors = Inputs(SEED), {}
    metadata = {"lr": compact(LR), "weight_decay": compact(WEIGHT_DECAY), "clip": compact(CLIP),
                "oracle": f"torch {torch.__version__}, transformers {transformers.__version__}, "
                          f"peft {peft.__version__}"}
    for name, (config, lora) in RUNS.items():
        run(inputs, config, lora, tensors, name)
        metadata[f"config/{name}"] = compact(config.to_dict())
        metadata[f"lora/{name}"] = compact(
            {"rank": lora["r"], "alpha": lora["lora_alpha"], "targets": lora["target_modules"]})
    save("lora_run.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
