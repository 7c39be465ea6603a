"""Prints the losses that tests/from_libtorch/generative_tutorials_test.cpp expects: its programs in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn


def prepare(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(((torch.arange(p.numel()) * 7 % 11).float() / 8 - 0.5).view_as(p) * 0.25)
    return module


def wave(sizes, factor):
    count = torch.Size(sizes).numel()
    return (torch.arange(count).float() * factor % 17 / 17).view(sizes)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22, self.fc3, self.fc4 = (nn.Linear(*s) for s in ((12, 8), (8, 2), (8, 2), (2, 8), (8, 12)))

    def forward(self, x, eps):
        h = F.relu(self.fc1(x.view(-1, 12)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + eps * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def vae():
    model = prepare(VAE())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    data = wave((4, 1, 3, 4), 5)
    for step in range(4):
        optimizer.zero_grad()
        recon, mu, logvar = model(data, wave((4, 2), 3 + step))
        loss = F.binary_cross_entropy(recon, data.view(-1, 12), reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss.backward()
        optimizer.step()
        yield loss


def policy_gradient():
    policy = prepare(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(1)))
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for episode in range(3):
        log_probs, rewards, state = [], [], wave((1, 4), 3 + episode)
        for t in range(5):
            log_probs.append(policy(state)[0, t % 2].log())
            rewards.append(1.0 if t % 2 == 0 else -0.5)
            state = torch.roll(state, 1, 1) * 0.9 + 0.1 * (t % 2)
        returns, total = [], 0.0
        for r in reversed(rewards):
            total = r + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        optimizer.zero_grad()
        loss = torch.stack([-p * r for p, r in zip(log_probs, returns)]).sum()
        loss.backward()
        optimizer.step()
        yield loss


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(10, 6), nn.GRU(6, 6, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru, self.out = nn.Embedding(9, 6), nn.GRU(12, 6, batch_first=True), nn.Linear(6, 9)
        self.Wa, self.Ua, self.Va = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, keys, hidden, target):
        token, outputs = torch.zeros(len(keys), 1, dtype=torch.int64), []
        for i in range(target.shape[1]):
            scores = self.Va(torch.tanh(self.Wa(hidden.permute(1, 0, 2)) + self.Ua(keys))).squeeze(2).unsqueeze(1)
            context = torch.bmm(scores.softmax(-1), keys)
            output, hidden = self.gru(torch.cat([self.embedding(token), context], 2), hidden)
            outputs.append(self.out(output))
            token = target[:, i].unsqueeze(1)
        return F.log_softmax(torch.cat(outputs, 1), -1)


def translation():
    encoder, decoder = prepare(Encoder()), prepare(Decoder())
    optimizers = [torch.optim.Adam(m.parameters(), 0.01) for m in (encoder, decoder)]
    source, target = torch.tensor([[1, 4, 2, 9], [3, 3, 7, 0]]), torch.tensor([[5, 1, 8], [2, 6, 4]])
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        decoded = decoder(*encoder(source), target)
        loss = F.nll_loss(decoded.view(-1, 9), target.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), 0.5)
        for optimizer in optimizers:
            optimizer.step()
        yield loss


def super_resolution():
    model = prepare(nn.Sequential(nn.Conv2d(1, 4, 5, padding="same"), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(4, 4, 3, padding=1), nn.PixelShuffle(2)))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    target = wave((2, 1, 8, 8), 3)
    given = F.interpolate(target, scale_factor=0.5, mode="bicubic", align_corners=False)
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(model(given), target)
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu")
        self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 3)

    def forward(self, tokens):
        mask = tokens == 0
        x = self.embedding(tokens) * 8 ** 0.5
        x = self.encoder(x.transpose(0, 1), src_key_padding_mask=mask).transpose(0, 1)
        kept = (~mask).unsqueeze(-1).float()
        return self.fc((x * kept).sum(1) / kept.sum(1))


def sentences():
    model = prepare(Classifier())
    with torch.no_grad():
        model.embedding.weight[0].zero_()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.01)
    tokens, labels = torch.tensor([[3, 5, 7, 0], [1, 2, 0, 0], [11, 4, 6, 8]]), torch.tensor([0, 2, 1])
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens), labels, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss


def frozen():
    backbone = prepare(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                     nn.AdaptiveAvgPool2d(1), nn.Flatten())).eval().requires_grad_(False)
    head = prepare(nn.Linear(4, 2))
    optimizer = torch.optim.Adam(head.parameters(), 1e-1)
    images, labels = wave((4, 3, 8, 8), 5), torch.tensor([0, 1, 1, 0])
    for _ in range(4):
        loss = F.cross_entropy(head(backbone(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


if __name__ == "__main__":
    for program in (vae, policy_gradient, translation, super_resolution, sentences, frozen):
        print(program.__name__, ", ".join(f"{loss.item():.7g}" for loss in program()))
