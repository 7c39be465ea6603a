"""Layers over sequences, with PyTorch's names, order of arguments and parameter names."""

from .. import _binade
from .module import Module

_F32 = _binade.f32


class _Recurrent(Module):
    def __init__(self, kind, input_size, hidden_size, *arguments):
        super().__init__()
        self._make_native(kind, input_size, hidden_size, *arguments)
        self.input_size, self.hidden_size = input_size, hidden_size

    def __getattr__(self, name):
        if name.startswith(("weight_", "bias_")) and self._native is not None:
            found = dict(self._native.named_parameters())
            if name in found:
                return found[name]
        return super().__getattr__(name)

    def forward(self, x, hx=None):
        """(output, last state) of x [time, batch, input_size], from the state hx or zeros."""
        output, hidden, _ = self._native(x, hx, None)
        return output, hidden

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}"


class LSTM(_Recurrent):
    """Long short-term memory; its state is (hidden, cell).

    >>> import binade as bn
    >>> output, (hidden, cell) = bn.nn.LSTM(4, 8, num_layers=2)(bn.ones(5, 3, 4))
    >>> output.shape, hidden.shape, cell.shape
    ((5, 3, 8), (2, 3, 8), (2, 3, 8))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device="cpu", dtype=_F32):
        super().__init__("_LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device, dtype)

    def forward(self, x, hx=None):
        """(output, (hidden, cell)) of x [time, batch, input_size], from the state hx or zeros."""
        output, hidden, cell = self._native(x, *((None, None) if hx is None else hx))
        return output, (hidden, cell)


class GRU(_Recurrent):
    """Gated recurrent unit."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device="cpu", dtype=_F32):
        super().__init__("_GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device, dtype)


class RNN(_Recurrent):
    """The plain recurrent network: nonlinearity(W x + U h + b)."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
                 batch_first=False, dropout=0.0, bidirectional=False, device="cpu", dtype=_F32):
        super().__init__("_RNN", input_size, hidden_size, num_layers, nonlinearity, bias, batch_first,
                         dropout, bidirectional, device, dtype)


class MaskedAttention(Module):
    """torch.nn.MultiheadAttention: queries over keys and values, with masks.

    A bool mask is true where a key is not seen; a floating one is added to the scores.

    >>> import binade as bn
    >>> layer = bn.nn.MaskedAttention(8, 2, batch_first=True)
    >>> x = bn.ones(3, 5, 8)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, *, kdim=None, vdim=None,
                 batch_first=False, device="cpu", dtype=_F32):
        super().__init__()
        self._make_native("_MaskedAttention", embed_dim, num_heads, dropout, bias, kdim or 0,
                          vdim or 0, batch_first, device, dtype)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                is_causal=False):
        """(output, weights averaged over heads); without `need_weights` they are None."""
        return self._native(query, key, value, key_padding_mask, attn_mask, is_causal,
                            need_weights)
