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

from .module import Module, ModuleList, Parameter, Sequential  # noqa: F401
from .layers import (  # noqa: F401
    BatchNorm1d, BatchNorm2d, BatchNorm3d, BCELoss, BCEWithLogitsLoss, Conv1d, Conv2d, Conv3d,
    CrossEntropyLoss, Dropout, Embedding, Flatten, GELU, GroupNorm, Identity, L1Loss, LayerNorm,
    Linear, MLP, MSELoss, MultiheadAttention, NLLLoss, ReLU, RMSNorm, Sigmoid, SiLU, Softmax, Tanh)
from .models import GPT, Llama, ResNet  # noqa: F401
from . import functional, init, utils  # noqa: F401
