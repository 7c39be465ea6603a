"""Writes interop_python.safetensors: one small tensor of every type the safetensors package knows."""

import torch
from safetensors.torch import save_file

tensors = {
    "F64": torch.tensor([-1.5, 0.1, 1e300], dtype=torch.float64),
    "F32": torch.tensor([-1.5, 0.25, 3.0]),
    "F16": torch.tensor([-1.5, 2.0**-24, 65504.0], dtype=torch.float16),
    "BF16": torch.tensor([-1.5, 2.0**-133, 3.0], dtype=torch.float64).to(torch.bfloat16),
    "F8_E4M3": torch.tensor([-1.5, 2.0**-9, 448.0]).to(torch.float8_e4m3fn),
    "F8_E5M2": torch.tensor([-1.5, 2.0**-16, 57344.0]).to(torch.float8_e5m2),
    "I64": torch.tensor([-3, 0, 2**53]),
    "I32": torch.tensor([-3, 0, 2**31 - 1], dtype=torch.int32),
    "I16": torch.tensor([-3, 0, 7], dtype=torch.int16),
    "I8": torch.tensor([-3, 0, 7], dtype=torch.int8),
    "U64": torch.tensor([0, 7], dtype=torch.uint64),
    "U32": torch.tensor([0, 7], dtype=torch.uint32),
    "U16": torch.tensor([0, 7], dtype=torch.uint16),
    "U8": torch.tensor([0, 7, 255], dtype=torch.uint8),
    "BOOL": torch.tensor([True, False, True]),
    "scalar": torch.tensor(0.5),
    "empty": torch.zeros(2, 0, 3),
}
save_file(tensors, "interop_python.safetensors", metadata={"format": "pt", "made by": "python"})
