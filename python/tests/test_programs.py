"""Whole programs as PyTorch's users write them: only the import lines name Binade."""

import copy
import math

import binade as torch
import binade.nn as nn
import binade.nn.functional as F
import numpy as np
from binade import optim
from binade.data import DataLoader, Dataset, TensorDataset, random_split
from binade.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_gradient_descent_by_hand():
    t = torch.linspace(-1, 1, 200, device=DEVICE, dtype=torch.float)
    target = 0.5 - 2 * t + 3 * t ** 2
    coefficients = [torch.zeros((), device=DEVICE, requires_grad=True) for _ in range(3)]
    for _ in range(400):
        predicted = sum(c * t ** power for power, c in enumerate(coefficients))
        loss = (predicted - target).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for c in coefficients:
                c -= 0.5 * c.grad
                c.grad.zero_()
    assert np.allclose([c.item() for c in coefficients], [0.5, -2, 3], atol=1e-2)


def test_softmax_regression_without_modules():
    x = torch.randn(300, 5)
    labels = (x[:, :3] + 0.1).argmax(dim=1)
    weight = (torch.randn(5, 3) / math.sqrt(5)).requires_grad_()
    bias = torch.zeros(3, requires_grad=True)

    def log_probabilities(batch):
        scores = batch @ weight + bias
        return scores - scores.exp().sum(-1, keepdim=True).log()

    for epoch in range(30):
        order = torch.randperm(len(x))
        for start in range(0, len(x), 50):
            rows = order[start:start + 50]
            picked = log_probabilities(x[rows])[range(len(rows)), labels[rows]]
            (-picked.mean()).backward()
            with torch.no_grad():
                for p in (weight, bias):
                    p -= 0.5 * p.grad
                    p.grad = None
    accuracy = (log_probabilities(x).argmax(1) == labels).float().mean()
    assert accuracy > 0.95


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * 3 * x ** 2


def test_a_function_with_its_own_gradient():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 12]


class SmallNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
                                      nn.MaxPool2d(2, 2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(6 * 4 * 4, 32), nn.ReLU(), nn.Dropout(0.1),
                                  nn.Linear(32, classes))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.head(self.features(x))


class Bars(Dataset):
    """Images with one bright row; the label is its index over two."""

    def __len__(self):
        return 160

    def __getitem__(self, index):
        image = np.random.default_rng(index).random((1, 8, 8), np.float32) * 0.2
        image[0, index % 8] += 1
        return image, (index % 8) // 2


def test_images_checkpoints_and_schedules(tmp_path):
    train, rest = random_split(Bars(), [128, 32], seed=0)
    loader = DataLoader(train, batch_size=16, shuffle=True)
    net, criterion = SmallNet().to(DEVICE), nn.CrossEntropyLoss()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    warmup = LinearLR(optimizer, start_factor=0.2, total_iters=2)
    scheduler = SequentialLR(optimizer, [warmup, CosineAnnealingLR(optimizer, T_max=4)], [2])
    for epoch in range(6):
        running = 0.0
        for images, labels in loader:
            images, labels = images.to(DEVICE), labels.to(DEVICE)
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
            running += loss.item() * images.size(0)
        scheduler.step()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "loss": running},
               tmp_path / "last.pth")
    again = SmallNet()
    again.load_state_dict(torch.load(tmp_path / "last.pth", map_location="cpu")["model"])
    again.eval()
    correct = total = 0
    with torch.no_grad():
        for images, labels in DataLoader(rest, batch_size=8):
            _, predicted = torch.max(again(images), 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
    assert total == 32 and correct >= 30, f"{100 * correct // total} %"


class Tagger(nn.Module):
    def __init__(self, words, tags, width=8):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width)
        self.out = nn.Linear(width, tags)

    def forward(self, sentence):
        embedded = self.embedding(sentence).view(len(sentence), 1, -1)
        states, _ = self.lstm(embedded)
        return F.log_softmax(self.out(states.view(len(sentence), -1)), dim=1)


def test_an_lstm_over_words():
    sentences = [([0, 1, 2, 3], [0, 1, 2, 1]), ([4, 2, 0], [1, 2, 0])]
    model = Tagger(5, 3)
    optimizer, criterion = optim.Adam(model.parameters(), lr=0.05), nn.NLLLoss()
    for _ in range(60):
        for words, tags in sentences:
            model.zero_grad()
            loss = criterion(model(torch.tensor(words, dtype=torch.long)), torch.tensor(tags))
            loss.backward()
            optimizer.step()
    for words, tags in sentences:
        assert model(torch.tensor(words)).argmax(dim=1).tolist() == tags


def test_a_plain_rnn_over_letters():
    cell = nn.ModuleDict({"i2h": nn.Linear(4, 16), "h2h": nn.Linear(16, 16), "h2o": nn.Linear(16, 2)})

    def encoded(word):
        tensor = torch.zeros(len(word), 1, 4)
        for place, letter in enumerate(word):
            tensor[place][0]["abcd".find(letter)] = 1
        return tensor

    words = [("abba", 0), ("dccd", 1), ("baab", 0), ("cddc", 1)]
    for step in range(200):
        word, label = words[step % 4]
        hidden = torch.zeros(1, 16)
        for letter in encoded(word):
            hidden = F.tanh(cell["i2h"](letter) + cell["h2h"](hidden))
        cell.zero_grad()
        F.cross_entropy(cell["h2o"](hidden), torch.tensor([label])).backward()
        for p in cell.parameters():
            p.data.add_(p.grad, alpha=-0.1)
    hidden = torch.zeros(1, 16)
    for letter in encoded("aabb"):
        hidden = torch.tanh(cell["i2h"](letter) + cell["h2h"](hidden))
    values, index = cell["h2o"](hidden).topk(1)
    assert index[0].item() == 0 and values.shape == (1, 1)


class Attention(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (part.view(batch, length, 2, width // 2).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-2, -1) * (width // 2) ** -0.5
        scores = scores.masked_fill(self.mask[:length, :length] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class Decoder(nn.Module):
    def __init__(self, vocab, width=16, length=8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, length)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        x = x + self.attention(self.norm(x))
        return self.head(x)


def test_a_transformer_of_ones_own():
    text = torch.tensor([1, 2, 3, 4, 5, 0] * 30)
    model = Decoder(6)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    average = copy.deepcopy(model)
    for _ in range(120):
        starts = torch.randint(len(text) - 9, (8,))
        x = torch.stack([text[i:i + 8] for i in starts])
        y = torch.stack([text[i + 1:i + 9] for i in starts])
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(average.parameters(), model.parameters()):
                mean.mul_(0.9).add_(p, alpha=0.1)
    ids = torch.zeros((1, 1), dtype=torch.long)
    for _ in range(11):
        probabilities = F.softmax(average(ids[:, -8:])[:, -1, :] * 20, dim=-1)
        ids = torch.cat((ids, torch.multinomial(probabilities, num_samples=1)), dim=1)
    assert loss < 0.3 and ids[0].tolist() == [0, 1, 2, 3, 4, 5] * 2


def test_q_learning_step():
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(policy)
    optimizer = optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)
    states, rewards = torch.randn(12, 4), torch.ones(12)
    actions = torch.tensor([[i % 2] for i in range(12)])
    going_on = torch.tensor(tuple(i % 4 != 0 for i in range(12)), dtype=torch.bool)
    first = None
    for _ in range(50):
        values = policy(states).gather(1, actions)
        following = torch.zeros(12)
        with torch.no_grad():
            following[going_on] = target(states[going_on]).max(1).values
        loss = nn.SmoothL1Loss()(values, (following * 0.9 + rewards).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        first = loss.item() if first is None else first
    state = target.state_dict()
    for key, value in policy.state_dict().items():
        state[key] = value * 0.5 + state[key] * 0.5
    target.load_state_dict(state)
    assert loss.item() < 0.2 * first


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 2 * 3), nn.Linear(3, 12)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.decoder(z)), mean, log_variance


def test_a_variational_autoencoder():
    data = (torch.rand(64, 3).repeat(1, 4) > 0.5).float()
    loader = DataLoader(TensorDataset(data), batch_size=16)
    model = Autoencoder()
    optimizer, losses = optim.Adam(model.parameters(), lr=2e-2), []
    for _ in range(30):
        for batch, in loader:
            rebuilt, mean, log_variance = model(batch)
            fit = F.binary_cross_entropy(rebuilt, batch, reduction="sum")
            divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
            optimizer.zero_grad()
            (fit + divergence).backward()
            optimizer.step()
            losses.append((fit + divergence).item())
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])


def test_regression_with_numpy_data():
    x = np.linspace(0, 1, 50).reshape(-1, 1)
    y = 3 * x - 1
    weight, bias = torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    weight.requires_grad_(), bias.requires_grad_()
    for _ in range(500):
        error = x @ weight + bias - y
        loss = (error ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for p in (weight, bias):
                p -= 0.5 * p.grad
                p.grad = None
    assert isinstance(loss, torch.Tensor) and f"{loss:.4f}" == "0.0000"
    assert np.allclose(weight.detach(), 3, atol=1e-2) and np.allclose(bias.detach().numpy(), -1, atol=1e-2)
