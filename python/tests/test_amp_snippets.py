"""What PyTorch's AMP documentation shows, with only the import changed.

Each snippet is a program in a user's own words. `torch` is Binade; `device` is the CPU.
"""

import binade as torch
import pytest

device = "cpu"
autocast, GradScaler = torch.amp.autocast, torch.amp.GradScaler
nn, optim = torch.nn, torch.optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


loss_fn = nn.MSELoss()


def make():
    torch.manual_seed(0)
    model = Net().to(device)
    return model, optim.SGD(model.parameters(), lr=0.05)


def batches(count=3):
    return [(torch.randn(6, 8, seed=i), torch.zeros(6, 4)) for i in range(count)]


def losses_fall(model):
    with torch.no_grad():
        return loss_fn(model(batches(1)[0][0]), batches(1)[0][1]).item()


def typical_training():
    model, optimizer = make()
    scaler = GradScaler()
    for epoch in range(2):
        for input, target in batches():
            optimizer.zero_grad()
            with autocast(device_type="cpu", dtype=torch.float16):
                output = model(input)
                loss = loss_fn(output, target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return model


def unscale_before_clipping():
    model, optimizer = make()
    scaler = GradScaler()
    for input, target in batches():
        optimizer.zero_grad()
        with autocast(device_type="cpu", dtype=torch.float16):
            loss = loss_fn(model(input), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return model


def clip_by_value():
    model, optimizer = make()
    scaler = GradScaler(device, init_scale=1024.0)
    for input, target in batches():
        optimizer.zero_grad(set_to_none=True)
        with autocast(device_type=device):
            loss = loss_fn(model(input), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
    return model


def gradient_accumulation():
    model, optimizer = make()
    scaler = GradScaler()
    iters_to_accumulate = 2
    for i, (input, target) in enumerate(batches(4)):
        with autocast(device_type="cpu", dtype=torch.float16):
            output = model(input)
            loss = loss_fn(output, target)
            loss = loss / iters_to_accumulate
        scaler.scale(loss).backward()
        if (i + 1) % iters_to_accumulate == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return model


def several_models_and_losses():
    model0, optimizer0 = make()
    model1, optimizer1 = make()
    scaler = GradScaler()
    for input, target in batches():
        optimizer0.zero_grad()
        optimizer1.zero_grad()
        with autocast(device_type="cpu", dtype=torch.float16):
            output0 = model0(input)
            output1 = model1(input)
            loss0 = loss_fn(2 * output0 + 3 * output1, target)
            loss1 = loss_fn(3 * output0 - 5 * output1, target)
        scaler.scale(loss0).backward(retain_graph=True)
        scaler.scale(loss1).backward()
        scaler.unscale_(optimizer0)
        scaler.step(optimizer0)
        scaler.step(optimizer1)
        scaler.update()
    return model0


def disabled_together():
    use_amp = False
    model, optimizer = make()
    scaler = GradScaler("cpu", enabled=use_amp)
    for input, target in batches():
        with torch.autocast(device_type=device, dtype=torch.float16, enabled=use_amp):
            loss = loss_fn(model(input), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert not scaler.is_enabled()
    return model


def save_and_resume():
    model, optimizer = make()
    scaler = GradScaler()
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                  "scaler": scaler.state_dict()}
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scaler.load_state_dict(checkpoint["scaler"])
    for input, target in batches():
        with torch.autocast(device_type=device, dtype=torch.float16):
            loss = loss_fn(model(input), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return model


def inference():
    model, _ = make()
    model.eval()
    with torch.no_grad():
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            output = model(batches(1)[0][0])
    assert output.dtype == torch.bfloat16


def cpu_training_with_bfloat16():
    model, optimizer = make()
    for epoch in range(2):
        for input, target in batches():
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                output = model(input)
                loss = loss_fn(output, target)
            loss.backward()
            optimizer.step()
    return model


def outputs_have_the_lower_type():
    a_float32 = torch.rand(8, 8)
    b_float32 = torch.rand(8, 8)
    c_float32 = torch.rand(8, 8)
    d_float32 = torch.rand(8, 8)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        e_float16 = torch.mm(a_float32, b_float32)
        f_float16 = torch.mm(d_float32, e_float16)
    g_float32 = torch.mm(c_float32, f_float16.float())
    assert (e_float16.dtype, g_float32.dtype) == (torch.bfloat16, torch.float32)


def disabled_subregion():
    a_float32 = torch.rand(8, 8)
    b_float32 = torch.rand(8, 8)
    c_float32 = torch.rand(8, 8)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        e_float16 = torch.mm(a_float32, b_float32)
        with torch.autocast(device_type="cpu", enabled=False):
            f_float32 = torch.mm(c_float32, e_float16.float())
        g_float16 = torch.mm(a_float32, f_float32)
    assert (f_float32.dtype, g_float16.dtype) == (torch.float32, torch.bfloat16)


def forward_as_a_decorated_method():
    class AutocastModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        @torch.autocast(device_type="cpu")
        def forward(self, input):
            return self.layer(input)

    assert AutocastModel()(torch.ones(1, 8)).dtype == torch.bfloat16


def autocast_inside_forward():
    class AutocastModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, input):
            with torch.autocast(device_type="cpu"):
                return self.layer(input)

    assert AutocastModel()(torch.ones(1, 8)).dtype == torch.bfloat16


def custom_function():
    class MyMM(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a.mm(b)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad.mm(b.t()), a.t().mm(grad)

    mymm = MyMM.apply
    a = torch.rand(4, 4, requires_grad=True)
    with autocast(device_type="cpu", dtype=torch.bfloat16):
        output = mymm(a, torch.rand(4, 4))
    output.sum().backward()
    assert output.dtype == torch.bfloat16 and a.grad.shape == (4, 4)


def custom_function_in_float32():
    class MyFloat32Func(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, input):
            assert input.dtype == torch.float32 and not torch.amp.is_autocast_enabled()
            ctx.save_for_backward(input)
            return input * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad * 2

    func = MyFloat32Func.apply
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    with autocast(device_type="cpu", dtype=torch.bfloat16):
        output = func(x)
    output.sum().backward()
    assert output.dtype == torch.float32 and x.grad.tolist() == [2, 2]


def learning_rate_after_a_skip():
    model, optimizer = make()
    scaler = GradScaler(init_scale=2.0**16)
    scale = scaler.get_scale()
    scaler.scale(loss_fn(model(batches(1)[0][0] * float("inf")), batches(1)[0][1])).backward()
    scaler.step(optimizer)
    scaler.update()
    skip_lr_sched = scale > scaler.get_scale()
    assert skip_lr_sched
    optimizer.zero_grad()
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0.5
    assert optimizer.param_groups[0]["lr"] == 0.025


def a_new_scale():
    model, optimizer = make()
    scaler = GradScaler(init_scale=128.0)
    scaler.scale(loss_fn(model(batches(1)[0][0]), batches(1)[0][1])).backward()
    scaler.step(optimizer)
    scaler.update(512.0)
    assert scaler.get_scale() == 512
    return model


def scale_a_list_of_losses():
    model, optimizer = make()
    scaler = GradScaler(init_scale=2.0)
    a, b = scaler.scale([torch.ones(1), torch.ones(2)])
    assert a.tolist() == [2] and b.tolist() == [2, 2]


def cross_entropy_is_float32():
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        logits = torch.mm(torch.rand(4, 8), torch.rand(8, 3))
        loss = nn.CrossEntropyLoss()(logits, torch.tensor([0, 1, 2, 0]))
    assert (logits.dtype, loss.dtype) == (torch.bfloat16, torch.float32)


def binary_cross_entropy_with_logits():
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        logits = torch.mm(torch.rand(4, 8), torch.rand(8, 1))
        loss = nn.BCEWithLogitsLoss()(logits, torch.ones(4, 1))
    assert loss.dtype == torch.float32


SNIPPETS = [typical_training, unscale_before_clipping, clip_by_value, gradient_accumulation,
            several_models_and_losses, disabled_together, save_and_resume, inference,
            cpu_training_with_bfloat16, outputs_have_the_lower_type, disabled_subregion,
            forward_as_a_decorated_method, autocast_inside_forward, custom_function,
            custom_function_in_float32, learning_rate_after_a_skip, a_new_scale,
            scale_a_list_of_losses, cross_entropy_is_float32, binary_cross_entropy_with_logits]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: s.__name__)
def test_snippet(snippet):
    model = snippet()
    if model is not None:
        assert losses_fall(model) < losses_fall(make()[0])


def test_there_are_twenty():
    assert len(SNIPPETS) == 20
