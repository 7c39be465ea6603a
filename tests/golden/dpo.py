"""Makes dpo.json: losses, rewards and gradients of direct preference optimization by PyTorch, in f64."""

import json

import numpy as np
import torch
from torch.nn.functional import logsigmoid

from golden_common import HERE, compact

SEED = 20261119
SETTINGS = [(0.1, 0.0), (0.5, 0.0), (2.0, 0.0), (0.1, 0.1), (0.3, 0.45)]  # beta, label smoothing
PAIRS = 7


def case(random, beta, smoothing):
    """The formulas of Rafailov et al. (2023), equation 7, and Mitchell's conservative DPO."""
    # f32 numbers, so that a reader in f32 has the same inputs.
    policy = torch.tensor(-random.exponential(60, (PAIRS, 2)).astype(np.float32)).double()
    reference = torch.tensor(-random.exponential(60, (PAIRS, 2)).astype(np.float32)).double()
    policy.requires_grad_()
    rewards = beta * (policy - reference)
    margin = rewards[:, 0] - rewards[:, 1]
    losses = -logsigmoid(margin) * (1 - smoothing) - logsigmoid(-margin) * smoothing
    loss = losses.mean()
    loss.backward()
    return {
        "beta": beta,
        "label_smoothing": smoothing,
        "policy": policy.detach().flatten().tolist(),
        "reference": reference.flatten().tolist(),
        "loss": loss.item(),
        "rewards": rewards.detach().flatten().tolist(),
        "gradient": policy.grad.flatten().tolist(),
    }


def main():
    random = np.random.Generator(np.random.PCG64(SEED))
    cases = [case(random, *setting) for setting in SETTINGS]
    data = {"oracle": f"torch {torch.__version__}, numpy {np.__version__}", "cases": cases}
    path = HERE / "dpo.json"
    path.write_text(compact(data) + "\n")
    assert json.loads(path.read_text()) == data


if __name__ == "__main__":
    main()
