"""Modules: layers that own parameters, and a base class for your own.

>>> import binade as bn
>>> class Net(bn.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.hidden = bn.nn.Linear(4, 8)
...         self.out = bn.nn.Linear(8, 2)
...     def forward(self, x):
...         return self.out(bn.relu(self.hidden(x)))
>>> net = Net()
>>> [name for name, _ in net.named_parameters()]
['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
>>> net(bn.ones(3, 4)).shape
(3, 2)
"""

from .module import Module, ModuleDict, ModuleList, Parameter, Sequential  # noqa: F401
from .layers import (  # noqa: F401
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, BatchNorm1d, BatchNorm2d, BatchNorm3d,
    BCELoss, BCEWithLogitsLoss, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
    ConvTranspose3d, CrossEntropyLoss, CTCLoss, Dropout, ELU, Embedding, Flatten, GELU, GroupNorm,
    Hardsigmoid, Hardswish, Hardtanh, HuberLoss, Identity, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
    L1Loss, KLDivLoss, LayerNorm, LeakyReLU, Linear, LogSigmoid, LogSoftmax, MaxPool1d, MaxPool2d, MaxPool3d,
    Mish, MLP, MSELoss, MultiheadAttention, NLLLoss, PixelShuffle, PReLU, ReLU, ReLU6, RMSNorm, SELU, Sigmoid,
    SiLU, SmoothL1Loss, Softmax, Softplus, Softsign, Tanh)
from .sequence import GRU, LSTM, RNN, MaskedAttention  # noqa: F401
from .models import GPT, Llama, ResNet  # noqa: F401
from . import functional, init, utils  # noqa: F401
