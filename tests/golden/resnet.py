"""Makes resnet_run.safetensors: 10 training steps of a tiny ResNet with torchvision's names."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from golden_common import Inputs, save

SEED = 20240605
STEPS, BATCH, IMAGE, CLASSES = 10, 4, (3, 12, 12), 10
WIDTHS, BLOCKS = (8, 16), (2, 2)
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + skip)


class ResNet(nn.Module):
    """conv1 3x3 stride 1, bn1, relu (no max pool); the stages; global average pool; fc."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(IMAGE[0], WIDTHS[0], 3, 1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.layer1 = self._stage(WIDTHS[0], WIDTHS[0], BLOCKS[0], stride=1)
        self.layer2 = self._stage(WIDTHS[0], WIDTHS[1], BLOCKS[1], stride=2)
        self.fc = nn.Linear(WIDTHS[1], CLASSES)

    def _stage(self, inside, outside, blocks, stride):
        first = BasicBlock(inside, outside, stride)
        return nn.Sequential(first, *(BasicBlock(outside, outside, 1) for _ in range(blocks - 1)))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(x.mean(dim=(2, 3)))


def initialise(model, inputs):
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.ndim == 4:
                fan_in = parameter[0].numel()
                parameter.copy_(inputs.normal(*parameter.shape, scale=(2 / fan_in) ** 0.5))
            else:
                is_norm_weight = parameter.ndim == 1 and parameter.mean() == 1
                shift = float(is_norm_weight)
                parameter.copy_(inputs.normal(*parameter.shape, scale=0.1, shift=shift))


def state(model):
    """Parameters and running statistics, without BatchNorm's batch counters."""
    return {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}


def train(model, images, targets):
    optimizer = torch.optim.SGD(model.parameters(), **SGD, foreach=False)
    losses = []
    for x, target in zip(images.to(model.fc.weight.dtype), targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def main():
    inputs = Inputs(SEED)
    model = ResNet().train()
    initialise(model, inputs)
    tensors = {name: value.clone() for name, value in state(model).items()}
    targets = inputs.integers(STEPS, BATCH, high=CLASSES)
    patterns = inputs.normal(CLASSES, *IMAGE)
    images = patterns[targets] + inputs.normal(STEPS, BATCH, *IMAGE)  # learnable: class plus noise
    reference = copy.deepcopy(model).double()
    tensors["run/images"], tensors["run/targets"] = images, targets
    tensors["run/step0/logits"] = copy.deepcopy(model)(images[0])
    tensors["run/loss"] = train(model, images, targets)
    tensors["run/loss_f64"] = train(reference, images, targets)
    names = sorted(state(model))
    final = [state(model)[name].double() for name in names]
    tensors["run/final_sum"] = torch.stack([value.sum() for value in final])
    tensors["run/final_norm"] = torch.stack([value.norm() for value in final])
    tensors["run/eval_logits"] = model.eval()(images[0])
    metadata = {
        "config": {"widths": WIDTHS, "blocks": BLOCKS, "classes": CLASSES, "image": IMAGE},
        "optimizer": SGD,
        "final_names": names,
        "oracle": f"torch {torch.__version__}",
    }
    save("resnet_run.safetensors", tensors, metadata)
    loss, exact = tensors["run/loss"], tensors["run/loss_f64"]
    print(f"  loss {loss[0]:.4f} -> {loss[-1]:.4f}, gap {((loss - exact) / exact).abs().max():.1e}")


if __name__ == "__main__":
    main()
