"""Makes resnet_run.safetensors and resnet_bottleneck_run.safetensors: training steps of tiny ResNets with
torchvision's names, of basic blocks and of bottlenecks."""

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from golden_common import Inputs, save

SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def projection(inside, outside, stride):
    """Of a shortcut whose shape changes; None if it does not."""
    if stride == 1 and inside == outside:
        return None
    return nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = projection(inside, width, stride)

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + skip)


class Bottleneck(nn.Module):
    """The stride is the 3x3 convolution's, as in torchvision (ResNet v1.5)."""

    expansion = 4

    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = projection(inside, 4 * width, stride)

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + skip)


@dataclass
class Case:
    file: str
    seed: int
    block: type
    large_stem: bool  # 7x7 stride 2 and max pool; else 3x3
    image: tuple
    steps: int
    batch: int
    widths: tuple
    blocks: tuple
    classes: int = 10


CASES = (
    Case("resnet_run.safetensors", 20240605, BasicBlock, False, (3, 12, 12), 10, 4, (8, 16), (2, 2)),
    Case("resnet_bottleneck_run.safetensors", 20240606, Bottleneck, True, (3, 28, 28), 4, 4, (4, 8), (2, 1)),
)


class ResNet(nn.Module):
    """conv1, bn1, relu, a max pool after a large stem; the stages; global average pool; fc."""

    def __init__(self, case):
        super().__init__()
        kernel, stride = (7, 2) if case.large_stem else (3, 1)
        inside = case.widths[0]
        self.conv1 = nn.Conv2d(case.image[0], inside, kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(inside)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if case.large_stem else nn.Identity()
        self.stages = []
        for i, (width, count) in enumerate(zip(case.widths, case.blocks)):
            stage = []
            for j in range(count):
                stage.append(case.block(inside, width, 2 if i > 0 and j == 0 else 1))
                inside = width * case.block.expansion
            self.stages.append(f"layer{i + 1}")
            self.add_module(self.stages[-1], nn.Sequential(*stage))
        self.fc = nn.Linear(inside, case.classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = getattr(self, stage)(x)
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


def make(case):
    inputs = Inputs(case.seed)
    model = ResNet(case).train()
    initialise(model, inputs)
    tensors = {name: value.clone() for name, value in state(model).items()}
    targets = inputs.integers(case.steps, case.batch, high=case.classes)
    patterns = inputs.normal(case.classes, *case.image)
    images = patterns[targets] + inputs.normal(case.steps, case.batch, *case.image)  # learnable: class plus noise
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
        "config": {"widths": case.widths, "blocks": case.blocks, "classes": case.classes, "image": case.image},
        "optimizer": SGD,
        "final_names": names,
        "oracle": f"torch {torch.__version__}",
    }
    save(case.file, tensors, metadata)
    loss, exact = tensors["run/loss"], tensors["run/loss_f64"]
    print(f"  loss {loss[0]:.4f} -> {loss[-1]:.4f}, gap {((loss - exact) / exact).abs().max():.1e}")


if __name__ == "__main__":
    for case in CASES:
        make(case)
