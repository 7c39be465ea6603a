"""Makes ops.safetensors: inputs, outputs and gradients of each op, from PyTorch on the CPU.

Inputs are float32; PyTorch computes in float64 on them, so the outputs are right to more
digits than any float32 kernel and serve float64 kernels as well.
"""

import torch

import ops_layers
import ops_plain
import ops_rearrange
from golden_common import Inputs, save

SEED = 20240601


class Recorder:
    def __init__(self):
        self.inputs = Inputs(SEED)
        self.tensors = {}
        self.cases = []

    def op(self, op, function, cases, outputs=("y",), fixed=()):
        """Records `function(params, *inputs)` for each (params, inputs) of `cases`.

        `outputs` names the results; `fixed` names inputs that take no gradient.
        """
        for index, (params, inputs) in enumerate(cases):
            self._case(f"{op}_{index}", op, function, params, inputs, outputs, fixed)

    def _case(self, case, op, function, params, inputs, outputs, fixed):
        leaves = []
        for i, (name, value) in enumerate(inputs.items()):
            self.tensors[f"{case}/in{i}"] = value.clone()
            leaf = value.double() if value.is_floating_point() else value
            if value.is_floating_point() and name not in fixed:
                leaf.requires_grad_()
            leaves.append(leaf)
        results = function(params, *leaves)
        results = results if isinstance(results, tuple) else (results,)
        assert len(results) == len(outputs), case
        self._backward(case, leaves, results)
        names = {"inputs": list(inputs), "outputs": list(outputs)}
        self.cases.append({"case": case, "op": op, "params": params} | names)

    def _backward(self, case, leaves, results):
        roots, upstream = [], []
        for i, result in enumerate(results):
            self.tensors[f"{case}/out{i}"] = result.detach()
            if result.requires_grad:
                dy = self.inputs.normal(*result.shape)
                self.tensors[f"{case}/dy{i}"] = dy
                roots.append(result)
                upstream.append(dy.double())
        if roots:
            torch.autograd.backward(roots, upstream)
        for i, leaf in enumerate(leaves):
            if leaf.requires_grad and roots:
                self.tensors[f"{case}/dx{i}"] = leaf.grad


def main():
    recorder = Recorder()
    ops_layers.activations(recorder)
    ops_layers.norms(recorder)
    ops_layers.convolutions(recorder)
    ops_layers.pooling(recorder)
    ops_layers.attention(recorder)
    ops_plain.losses(recorder)
    ops_plain.indexing(recorder)
    ops_plain.reductions(recorder)
    ops_plain.products(recorder)
    ops_rearrange.all_groups(recorder)
    metadata = {"cases": recorder.cases, "oracle": f"torch {torch.__version__}"}
    save("ops.safetensors", recorder.tensors, metadata)


if __name__ == "__main__":
    main()
