"""Makes tensor_core.txt: sums of products as tensor cores compute them, with exact fractions.

Run in this folder: python tensor_core.py [CASES [FILE]]     CASES of each instruction, 24 if not given
Lines: ARCHITECTURE A B ACCUMULATOR ZEROS PROMOTE K, then K codes of a, K codes of b, c and the result, in
hexadecimal bits of their formats (tf32: 32 bits). Written from the published descriptions (MMA-Sim, arXiv
2511.10909; MATLAB-tensor-core, arXiv 2512.07004), not from the C++ code: every number is a fraction, every
step a line of the rule.
"""

import random
import sys
from fractions import Fraction

# name: exponent bits, fraction bits, least exponent, "ieee" or "finite"
FORMATS = {
    "f16": (5, 10, -14, "ieee"),
    "bf16": (8, 7, -126, "ieee"),
    "tf32": (8, 23, -126, "ieee"),  # as f32; the low 13 bits are dropped when it is read
    "f32": (8, 23, -126, "ieee"),
    "e4m3": (4, 3, -6, "finite"),
    "e5m2": (5, 2, -14, "ieee"),
}
# products of a sum, fraction bits F, kept bits of f32, floors of E without zeros: f32, f16
UNITS = {
    ("volta", "half"): (4, 23, 23, -132, -20),
    ("turing", "half"): (8, 24, 23, -132, -20),
    ("ampere", "half"): (8, 24, 23, -132, -20),
    ("ampere", "tf32"): (4, 24, 23, -132, -20),
    ("ada", "fp8"): (16, 13, 13, -132, -20),
    ("hopper", "half"): (16, 25, 23, -133, -21),
    ("hopper", "tf32"): (8, 25, 23, -133, -21),
    ("hopper", "fp8"): (32, 13, 13, -133, -21),
    ("blackwell", "half"): (16, 25, 23, -133, -21),
    ("blackwell", "tf32"): (8, 25, 23, -133, -21),
    ("blackwell", "fp8"): (32, 25, 23, -133, -21),
}
KINDS = {"f16": "half", "bf16": "half", "tf32": "tf32", "e4m3": "fp8", "e5m2": "fp8"}
INSTRUCTIONS = [
    ("volta", "f16", "f16"), ("turing", "f16", "f16"),
    ("ampere", "f16", "f16"), ("ampere", "bf16", "bf16"), ("ampere", "tf32", "tf32"), ("ada", "e4m3", "e5m2"),
    ("hopper", "f16", "f16"), ("hopper", "bf16", "bf16"), ("hopper", "tf32", "tf32"),
    ("hopper", "e4m3", "e4m3"), ("hopper", "e5m2", "e5m2"), ("hopper", "e5m2", "e4m3"),
    ("blackwell", "bf16", "bf16"), ("blackwell", "tf32", "tf32"), ("blackwell", "e4m3", "e4m3"),
]


def width(name):
    exponent, fraction, _, _ = FORMATS[name]
    return 1 + exponent + fraction


def decode(name, code):
    """"nan", "inf", "-inf", or (significand, exponent) with the sign in the significand."""
    exponent_bits, fraction_bits, least, specials = FORMATS[name]
    if name == "tf32":
        code &= ~0x1FFF
    field = code >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = code & ((1 << fraction_bits) - 1)
    negative = code >> (exponent_bits + fraction_bits) & 1
    top = (1 << exponent_bits) - 1
    if specials == "finite" and field == top and fraction == (1 << fraction_bits) - 1:
        return "nan"
    if specials == "ieee" and field == top:
        return "nan" if fraction else "-inf" if negative else "inf"
    significand = Fraction(fraction, 1 << fraction_bits) + (1 if field else 0)
    exponent = least + (field - 1 if field else 0)
    return (-significand if negative else significand), exponent


def cut(x):
    """Toward zero to an integer."""
    return -(-x.numerator // x.denominator) if x < 0 else x.numerator // x.denominator


def power(exponent):
    return Fraction(2) ** exponent


def binade(x):
    """The e of 2^e <= |x| < 2^(e + 1)."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if power(e) <= x else e - 1


def encode(accumulator, x, kept):
    """The accumulator's code of an exact sum."""
    if accumulator == "f16":
        unit = power(max(binade(x), -14) - 10) if x else Fraction(1)
        scaled = abs(x) / unit
        n = cut(scaled)
        rest = scaled - n
        if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2):
            n += 1
        magnitude = n * unit
        if magnitude >= 65536:
            return (0x8000 if x < 0 else 0) | 0x7C00
        fraction_bits, least, sign = 10, -14, 0x8000
    else:
        unit = power(max(binade(x) - kept, -149)) if x else Fraction(1)
        magnitude = cut(abs(x) / unit) * unit
        if magnitude >= power(128):
            return (1 << 31 if x < 0 else 0) | 0x7F800000
        fraction_bits, least, sign = 23, -126, 1 << 31
    if magnitude == 0:
        return 0
    e = binade(magnitude)
    if e < least:
        code = int(magnitude / power(least - fraction_bits))
    else:
        code = (e - least + 1 << fraction_bits) + int((magnitude / power(e) - 1) * (1 << fraction_bits))
    return code | (sign if x < 0 else 0)


def class_of_product(a, b):
    if a == "nan" or b == "nan":
        return "nan"
    infinite = [x for x in (a, b) if isinstance(x, str)]
    if not infinite:
        return "finite"
    for x in (a, b):
        if not isinstance(x, str) and x[0] == 0:
            return "nan"
    negative = sum(x == "-inf" if isinstance(x, str) else x[0] < 0 for x in (a, b))
    return "-inf" if negative == 1 else "inf"


def fused_sum(unit, accumulator, zeros, a, b, c):
    products, bits, kept, floor_f32, floor_f16 = unit
    assert len(a) <= products
    classes = [class_of_product(x, y) for x, y in zip(a, b)] + [c if isinstance(c, str) else "finite"]
    if "nan" in classes or ("inf" in classes and "-inf" in classes):
        return 0x7FFF if accumulator == "f16" else 0x7FFFFFFF
    for special, code in (("inf", 0x7C00), ("-inf", 0xFC00)):
        if special in classes:
            return code if accumulator == "f16" else code << 16 | 0x3800000
    if zeros == "least":
        a, b, c = [[(s, e if s else -126) for s, e in x] for x in (a, b, [c])]
        summands = [(x[0] * y[0], x[1] + y[1]) for x, y in zip(a, b)] + c
        largest = max(e for _, e in summands)
    else:
        summands = [(x[0] * y[0], x[1] + y[1]) for x, y in zip(a, b)] + [c]
        floor = floor_f16 if accumulator == "f16" else floor_f32
        largest = max([e for s, e in summands if s] + [floor])
    unit_exponent = largest - bits
    total = sum(cut(s * power(e - unit_exponent)) for s, e in summands)
    return encode(accumulator, total * power(unit_exponent), kept)


def f32_value(code):
    s, e = decode("f32", code)
    return s * power(e)


def add_f32(x, y):
    """x + y rounded to nearest even; finite, and not zero through cancellation."""
    exact = f32_value(x) + f32_value(y)
    if exact == 0:
        return 0
    unit = power(max(binade(exact) - 23, -149))
    scaled = abs(exact) / unit
    n = cut(scaled)
    rest = scaled - n
    n += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2)
    return encode("f32", (-1 if exact < 0 else 1) * n * unit, 23)


def dot(architecture, formats, accumulator, zeros, promote, a, b, c):
    unit = UNITS[architecture, KINDS[formats[0]]]
    x = [decode(formats[0], code) for code in a]
    y = [decode(formats[1], code) for code in b]

    def chain(begin, end, start):
        for k in range(begin, end, unit[0]):
            stop = min(k + unit[0], end)
            start = fused_sum(unit, accumulator, zeros, x[k:stop], y[k:stop], decode(accumulator, start))
        return start

    if not promote:
        return chain(0, len(a), c)
    for k in range(0, len(a), promote):
        c = add_f32(c, chain(k, min(k + promote, len(a)), 0))
    return c


class Cases:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def near(self, name, center, spread):
        """A number whose exponent is within `spread` of `center`, as far as the format has it."""
        exponent_bits, fraction_bits, least, specials = FORMATS[name]
        largest = least + (1 << exponent_bits) - (2 if specials == "finite" else 3)
        e = center + self.rng.randint(-spread, spread)
        field = min(max(e, least - 1), largest) - least + 1
        code = field << fraction_bits | self.rng.getrandbits(fraction_bits)
        if decode(name, code) in ("nan", "inf"):
            code -= 1
        return code | self.rng.getrandbits(1) << (width(name) - 1)

    def any(self, name):
        return self.rng.getrandbits(width(name))

    def finite(self, name):
        while isinstance(decode(name, code := self.any(name)), str):
            pass
        return code

    def factors(self, style, formats, k):
        a, b = formats
        rng = self.rng
        if style == "close":  # all products count
            return [[self.near(f, 0, 2) for _ in range(k)] for f in formats]
        if style == "spread":  # exponents around those where bits are cut
            return [[self.near(f, 0, 12) for _ in range(k)] for f in formats]
        if style == "finite":
            return [[self.finite(f) for _ in range(k)] for f in formats]
        if style == "subnormal":
            return [[self.near(f, FORMATS[f][2] - rng.randint(0, 1), 1) for _ in range(k)] for f in formats]
        if style == "tiny":  # results that are subnormal
            return [[self.near(a, max(FORMATS[a][2], -64), 3) for _ in range(k)],
                    [self.near(b, max(FORMATS[b][2], -66), 3) for _ in range(k)]]
        if style == "large":
            return [[self.near(f, 63 if FORMATS[f][0] == 8 else 15, 1) for _ in range(k)] for f in formats]
        if style == "sparse":
            return [[self.near(f, 0, 4) if rng.random() < 0.4 else 0 for _ in range(k)] for f in formats]
        if style == "cancel":  # pairs that cancel, in any order, and a rest
            x = [self.near(a, 3, 3) for _ in range(k)]
            y = [self.near(b, 3, 3) for _ in range(k)]
            for i in range(0, k - 1, 2):
                x[i + 1], y[i + 1] = x[i] ^ 1 << (width(a) - 1), y[i]
            order = list(range(k))
            rng.shuffle(order)
            x, y = [x[i] for i in order], [y[i] for i in order]
            x[rng.randrange(k)] = self.near(a, -3, 6)
            return [x, y]
        assert style == "special"
        x, y = [[self.near(f, 0, 3) for _ in range(k)] for f in formats]
        for values, f in ((x, a), (y, b)):
            for _ in range(rng.randint(0, 2)):
                top = (1 << width(f) - 1) - 1
                infinity = top & ~((1 << FORMATS[f][1]) - 1)
                choice = rng.choice([top, 0] if FORMATS[f][3] == "finite" else [infinity, infinity, top, 0])
                values[rng.randrange(k)] = choice | rng.getrandbits(1) << (width(f) - 1)
        return [x, y]

    def start(self, style, accumulator):
        if style == "special":
            return self.rng.choice([0, 1 << width(accumulator) - 1, self.any(accumulator)])
        choice = self.rng.randrange(5)
        if choice == 0:
            return 0
        if choice == 1:
            return 1 << width(accumulator) - 1
        if choice == 2:
            return self.near(accumulator, FORMATS[accumulator][2], 2)
        if style == "large":
            return self.near(accumulator, 127 if accumulator == "f32" else 15, 1)
        if style in ("tiny", "finite"):
            return self.finite(accumulator)
        return self.near(accumulator, 2, 14)


STYLES = ["close", "spread", "finite", "subnormal", "tiny", "large", "sparse", "cancel", "special"]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    cases = Cases(20260901)
    lines = []
    for architecture, a, b in INSTRUCTIONS:
        formats = (a, b)
        products = UNITS[architecture, KINDS[a]][0]
        accumulators = ["f32", "f16"] if a != "bf16" and a != "tf32" else ["f32"]
        for accumulator in accumulators:
            for zeros in ("least", "left_out"):
                for i in range(count):
                    style = STYLES[i % len(STYLES)]
                    k = products if i % 4 else cases.rng.randint(1, 2 * products + 3)
                    promote = 0
                    if i % 8 == 5 and accumulator == "f32" and style not in ("special", "large", "finite"):
                        promote = 2 * products
                        k = cases.rng.randint(promote + 1, 3 * promote)
                    x, y = cases.factors(style, formats, k)
                    c = cases.start(style, accumulator)
                    if promote and isinstance(decode(accumulator, c), str):
                        c = 0
                    d = dot(architecture, formats, accumulator, zeros, promote, x, y, c)
                    words = [architecture, a, b, accumulator, zeros, str(promote), str(k)]
                    words += [f"{code:x}" for code in x + y + [c, d]]
                    lines.append(" ".join(words))
    with open(sys.argv[2] if len(sys.argv) > 2 else "tensor_core.txt", "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
