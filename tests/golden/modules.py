"""Makes modules.safetensors: recurrent networks, attention with masks and transposed convolutions."""

import torch

from golden_common import Inputs, save

SEED = 20240611

RECURRENT = {
    "lstm": ("LSTM", {}),
    "lstm_all": (
        "LSTM",
        {"num_layers": 2, "bidirectional": True, "batch_first": True, "initial": True},
    ),
    "lstm_no_bias": ("LSTM", {"bias": False, "num_layers": 2}),
    "gru": ("GRU", {}),
    "gru_all": (
        "GRU",
        {"num_layers": 3, "bidirectional": True, "batch_first": True, "initial": True},
    ),
    "rnn_tanh": ("RNN", {"num_layers": 2, "bidirectional": True}),
    "rnn_relu": ("RNN", {"nonlinearity": "relu", "initial": True}),
}

ATTENTION = {
    "attention": {},
    "attention_causal": {"causal": True, "batch_first": True},
    "attention_padding": {"padding": True},
    "attention_bool_mask": {"mask": "bool", "padding": True, "batch_first": True},
    "attention_float_mask": {"mask": "float", "bias": False},
    "attention_head_mask": {"mask": "heads"},
    "attention_cross": {"keys": 7, "kdim": 6, "vdim": 10, "padding": True},
    "attention_cross_same": {"keys": 7, "mask": "bool", "batch_first": True},
}

CONV_TRANSPOSE = {
    "conv_transpose1d": (1, {"stride": 2, "padding": 1, "output_padding": 1}),
    "conv_transpose2d": (2, {"stride": [2, 1], "padding": [1, 0], "groups": 2}),
    "conv_transpose3d": (3, {"dilation": 2, "bias": False}),
}

BATCH, TIME, WIDTH, HIDDEN, HEADS = 3, 5, 8, 6, 4


def fill(module, inputs):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(inputs.normal(*parameter.shape, scale=0.4))


def record(name, tensors, inputs, module, given, outputs):
    """Parameters, inputs and outputs, and the gradients of the sum of outputs times dy."""
    total = 0
    for key, output in outputs.items():
        dy = inputs.normal(*output.shape)
        tensors[f"{name}/out/{key}"] = output
        tensors[f"{name}/dy/{key}"] = dy
        total = total + (output * dy).sum()
    total.backward()
    for key, parameter in module.named_parameters():
        tensors[f"{name}/state/{key}"] = parameter
        tensors[f"{name}/grad/{key}"] = parameter.grad
    for key, value in given.items():
        tensors[f"{name}/in/{key}"] = value
        if value.grad is not None:
            tensors[f"{name}/din/{key}"] = value.grad


def recurrent_cases(inputs, tensors):
    cases = []
    for name, (kind, options) in RECURRENT.items():
        options = dict(options)
        with_initial = options.pop("initial", False)
        module = getattr(torch.nn, kind)(WIDTH, HIDDEN, **options)
        fill(module, inputs)
        first = options.get("batch_first", False)
        x = inputs.normal(*((BATCH, TIME) if first else (TIME, BATCH)), WIDTH).requires_grad_()
        given, arguments = {"x": x}, (x,)
        if with_initial:
            sets = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
            given["hidden"] = inputs.normal(sets, BATCH, HIDDEN).requires_grad_()
            arguments = (x, given["hidden"])
            if kind == "LSTM":
                given["cell"] = inputs.normal(sets, BATCH, HIDDEN).requires_grad_()
                arguments = (x, (given["hidden"], given["cell"]))
        output, state = module(*arguments)
        outputs = {"output": output, "hidden": state[0] if kind == "LSTM" else state}
        if kind == "LSTM":
            outputs["cell"] = state[1]
        record(name, tensors, inputs, module, given, outputs)
        cases.append({"case": name, "kind": kind, "params": options})
    return cases


def attention_cases(inputs, tensors):
    cases = []
    for name, options in ATTENTION.items():
        keys = options.get("keys", TIME)
        first = options.get("batch_first", False)
        kdim, vdim = options.get("kdim", WIDTH), options.get("vdim", WIDTH)
        module = torch.nn.MultiheadAttention(
            WIDTH, HEADS, bias=options.get("bias", True), kdim=kdim, vdim=vdim, batch_first=first
        )
        fill(module, inputs)

        def sequence(time, width):
            shape = (BATCH, time, width) if first else (time, BATCH, width)
            return inputs.normal(*shape).requires_grad_()

        given = {
            "query": sequence(TIME, WIDTH),
            "key": sequence(keys, kdim),
            "value": sequence(keys, vdim),
        }
        call = {}
        if options.get("padding"):
            padding = torch.zeros(BATCH, keys, dtype=torch.bool)
            padding[1, -2:] = True
            padding[2, 0] = True
            call["key_padding_mask"] = given["padding"] = padding
        mask = options.get("mask")
        if mask == "bool":
            call["attn_mask"] = inputs.uniform(TIME, keys) < 0.3
            call["attn_mask"][:, 1] = False  # no row without a key
        elif mask == "float":
            call["attn_mask"] = inputs.normal(TIME, keys)
        elif mask == "heads":
            call["attn_mask"] = inputs.uniform(BATCH * HEADS, TIME, keys) < 0.3
            call["attn_mask"][:, :, 2] = False
        if options.get("causal"):
            call["attn_mask"] = torch.ones(TIME, keys, dtype=torch.bool).triu(1)
        elif mask:
            given["mask"] = call["attn_mask"]
        output, weights = module(given["query"], given["key"], given["value"], **call)
        record(name, tensors, inputs, module, given, {"output": output, "weights": weights})
        cases.append({"case": name, "params": options})
    return cases


def conv_transpose_cases(inputs, tensors):
    cases = []
    for name, (axes, options) in CONV_TRANSPOSE.items():
        kernel = [3, 2, 2][:axes]
        module = getattr(torch.nn, f"ConvTranspose{axes}d")(4, 6, kernel, **options)
        fill(module, inputs)
        x = inputs.normal(2, 4, *[4, 3, 2][:axes]).requires_grad_()
        record(name, tensors, inputs, module, {"x": x}, {"output": module(x)})
        cases.append({"case": name, "axes": axes, "kernel": kernel, "params": options})
    return cases


def main():
    inputs, tensors = Inputs(SEED), {}
    metadata = {
        "recurrent": recurrent_cases(inputs, tensors),
        "attention": attention_cases(inputs, tensors),
        "conv_transpose": conv_transpose_cases(inputs, tensors),
        "oracle": f"torch {torch.__version__}",
    }
    save("modules.safetensors", tensors, metadata)


if __name__ == "__main__":
    main()
