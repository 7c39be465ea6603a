import binade as bn


def test_a_step_without_faults():
    model = bn.nn.Linear(4, 4)
    assert bn.lab.diagnose(lambda: model(bn.ones(2, 4)).sum(), model) is None


def test_overflow_in_f16_is_a_matter_of_range():
    model = bn.nn.Sequential(bn.nn.Linear(4, 4), bn.nn.Linear(4, 4))
    model[1].weight.detach().fill_(60000.0)
    model[0].weight.detach().fill_(100.0)

    def loss():
        with bn.autocast("cpu", dtype=bn.float16):
            return model(bn.ones(2, 4)).sum()

    diagnosis = bn.lab.diagnose(loss, model)
    assert diagnosis.verdict == "range"
    assert diagnosis.finding["op"] == "linear" and diagnosis.finding["module"] == "1"
    assert diagnosis.advice and "1" in str(diagnosis)


def test_a_scale_that_is_too_large():
    w = bn.tensor([1.0], requires_grad=True)

    def loss():
        with bn.autocast("cpu", dtype=bn.float16):
            return bn.linear(bn.ones(1, 1), w.reshape(1, 1)).sum()

    diagnosis = bn.lab.diagnose(loss, [("w", w)], scale=2.0**20)
    assert diagnosis.verdict == "loss scale" and 0 < diagnosis.largest_scale < 2.0**20


def test_an_op_that_f32_does_not_help():
    w = bn.tensor([-1.0], requires_grad=True)
    diagnosis = bn.lab.diagnose(lambda: bn.log(w).sum(), [("w", w)])
    assert diagnosis.verdict == "op" and diagnosis.finding["op"] == "log"
