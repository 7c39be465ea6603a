#!/usr/bin/env python3
"""Tokenizers in the shapes of known families, and what the tokenizers package makes of texts with them.

    python tokenizer_json.py                           # tests/golden/tokenizers/*.json
    python tokenizer_json.py --lines 5000 --out DIR    # more lines, for a longer comparison:
    BINADE_TOKENIZER_CASES=DIR build/release/test_data --gtest_filter='TokenizerGolden*'

NAME.json is a tokenizer.json, NAME.cases.json has texts with their ids and what the ids decode to. The vocabularies
are learned here, from the texts below: no file of a published model is needed. trained.json is a text and the merges
that the package learns from it.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import sys
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# ---- texts ----

SENTENCES = """\
The quick brown fox jumps over the lazy dog; it's what they'd do, isn't it? I'LL SAY SO, WE'VE SEEN 'EM.
In 2026 the model had 124,439,808 parameters and a loss of 3.28 after 19,560 steps (1.05e-3 at most).
for (int64_t i = 0; i < n; ++i) { sum += x[i] * w[i]; }  // accumulate in f32
def forward(self, x):\n    return self.down(F.silu(self.gate(x)) * self.up(x))\n
if (a != b && !done) {\r\n\treturn "none\\n";\r\n}
<html><body class="x">&nbsp;</body></html>\n\n\n
中文的分词没有空格，模型按字节或者按字来切分。训练需要很多数据！
日本語のテキストには、ひらがなとカタカナと漢字が混ざっています。
한국어 문장은 띄어쓰기가 있습니다. 모델이 배웁니다.
Привет, мир! Это простое предложение на русском языке.
مرحبا بالعالم، هذا نص بسيط باللغة العربية ١٢٣٤.
नमस्ते दुनिया, यह एक सरल वाक्य है।
Η γρήγορη αλεπού πηδάει πάνω από το σκύλο.
Xin chào thế giới, tiếng Việt có nhiều dấu thanh.
Ça va très bien, merci; où êtes-vous allés cet été? Straße, Größe, ŒUVRE, İstanbul.
👍🏽 👩‍👩‍👧‍👦 🇩🇪 ☕️ 😀😀😀 ✨🚀
e\u0301 o\u0308\u0323 \u1e9b\u0323 \u212b \ufb01 \u2126 \uac00\u11a8 \u1100\u1161\u11a8
x = {'a': [1, 2, 3], "b": None}\t\t# tabs\t and   runs    of  spaces     
""".splitlines()
SENTENCES = [line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t") for line in SENTENCES]


def training_texts(sentences=SENTENCES):
    rng = random.Random(1)
    words = " ".join(sentences).split()
    return sentences * 3 + [" ".join(rng.choice(words) for _ in range(12)) for _ in range(300)]


# Enough to learn from, and few enough characters that others are unknown.
FEW_SENTENCES = SENTENCES[:4] + SENTENCES[6:7]


FORMS = {form: getattr(normalizers, form)() for form in ("NFC", "NFD", "NFKC", "NFKD")}


def is_normalized_alike(c):
    """The package's tables of normal forms are older: to it later marks are of no class, and stay where they are."""
    texts = [c, "\u0345" + c] + ([c + "\u0334"] if unicodedata.combining(c) else [])
    return all(FORMS[f].normalize_str(t) == unicodedata.normalize(f, t) for f in FORMS for t in texts)


# Python 3.11 and PCRE2 10.42 both have Unicode 14: characters assigned later may be of another class.
assert unicodedata.unidata_version == "14.0.0"
ASSIGNED = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
LATER = [c for c in ASSIGNED if not is_normalized_alike(c)]
ASSIGNED = sorted(set(ASSIGNED) - set(LATER))
MARKS = [c for c in ASSIGNED if unicodedata.category(c) in ("Mn", "Mc", "Me")]
SPACES = list(" \t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u180e\u2003\u2028\u202f\u3000\u200b\ufeff")
CONTROLS = [chr(c) for c in range(32)] + ["\x7f", "\x9f", "\u200d", "\ufe0f", "\ufffd", "\u2581"]
CONTRACTIONS = ["'s", "'T", "'re", "'VE", "'m", "'Ll", "'d", "'\u017f", "\u2019s"]
LITERALS = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<0x41>", "<|im_start|>", "[WORD]", "Added"]


def line_of(rng):
    """A line of mixed text: pieces of several kinds, with and without spaces between them."""
    words = " ".join(SENTENCES).split(" ")

    def piece():
        kind = rng.randrange(12)
        if kind < 4:
            return rng.choice(words)
        if kind == 4:
            return "".join(rng.choice(SPACES[:4] if rng.random() < 0.7 else SPACES) for _ in range(rng.randint(1, 5)))
        if kind == 5:
            return str(rng.randrange(10 ** rng.randint(1, 9)))
        if kind == 6:
            return "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.randint(1, 4)))
        if kind == 7:
            return "".join(rng.choice(ASSIGNED) for _ in range(rng.randint(1, 4)))
        if kind == 8:
            return rng.choice("aeoAEO\u03b1\uac00\u1100") + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 4)))
        if kind == 9:
            return rng.choice(CONTROLS) * rng.randint(1, 2)
        if kind == 10:
            return rng.choice(words) + rng.choice(CONTRACTIONS)
        return rng.choice(LITERALS)

    if rng.random() < 0.2:
        return rng.choice(SENTENCES)
    return "".join(piece() + rng.choice(["", "", " ", " ", "  ", "\n"]) for _ in range(rng.randint(1, 14)))


EDGES = ["", " ", "  ", "\n", "a", " a", "a ", "\t", "\u3000", "'s", "'s's", "1234567", "\ufeff", "\x00", "<s>", "<s> a <s>",
         "x" * 300, "ab " * 60, "\u2581", " \u2581 a", "a\u0301" * 40, "\U0010ffff", "  \n  \n x", "\r\n\r\n", "a\r\nb"]


def lines_of(count, seed):
    rng = random.Random(seed)
    return EDGES + [line_of(rng) for _ in range(count - len(EDGES))]


# ---- tokenizers ----


def learned(tokenizer, vocab, alphabet=(), special=(), texts=None):
    trainer = trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=list(alphabet), special_tokens=list(special),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts or training_texts(), trainer)
    return tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(vocab, pattern=None, special=("<|endoftext|>",), add_prefix_space=False, steps=()):
    """GPT-2's shape without a pattern, Llama-3's with one."""
    tokenizer = Tokenizer(models.BPE())
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=pattern is None)
    before = list(steps) + ([split(pattern)] if pattern else [])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(before + [bytes_]) if before else bytes_
    tokenizer.decoder = decoders.ByteLevel()
    return learned(tokenizer, vocab, pre_tokenizers.ByteLevel.alphabet(), special)


def gpt2(vocab):
    tokenizer = byte_level(vocab)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def llama3(vocab):
    tokenizer = byte_level(vocab, LLAMA3, ("<s>", "</s>"))
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False),
         processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])])
    text = json.loads(tokenizer.to_str())
    text["model"]["ignore_merges"] = True
    # A token that no merge makes, and one that merges would not.
    for token in ("\u0120Xq", "\u0120quick\u0120"):
        text["model"]["vocab"][token] = len(text["model"]["vocab"])
    return Tokenizer.from_str(json.dumps(text))


def qwen(vocab):
    tokenizer = byte_level(vocab, QWEN, ("<|endoftext|>",))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("Ame\u0301lie", normalized=True)])
    return tokenizer


def neox(vocab):
    """add_prefix_space, NFC and runs of spaces as added tokens."""
    tokenizer = byte_level(vocab, add_prefix_space=True)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 6)])
    return tokenizer


def o200k(vocab):
    return byte_level(vocab, O200K)


def deepseek(vocab):
    """Several splits one after another, among them characters of a script."""
    steps = [split(r"\p{N}{1,3}"), split(r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(r"\p{Han}"),
             pre_tokenizers.Digits(individual_digits=True)]
    return byte_level(vocab, GPT2, steps=steps)


def behaviors(vocab):
    steps = [split(r"[.,;]", "merged_with_previous"), split(r"[(\[{]", "merged_with_next"), split(r"_+", "contiguous"),
             split(r"#[a-z]*", "removed"), split(r"[^~]+", "removed", invert=True), pre_tokenizers.Digits()]
    return byte_level(vocab, steps=steps)


def added(vocab):
    """All kinds of added tokens."""
    tokenizer = byte_level(vocab, LLAMA3, ("<|endoftext|>", "<pad>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<s>", rstrip=True),
                                  AddedToken("</s>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("[WORD]", single_word=True), AddedToken("Added", normalized=True),
                          AddedToken("fox", single_word=True, normalized=False), AddedToken("fo", normalized=False),
                          AddedToken("fox jumps", normalized=False), AddedToken("\n\n", normalized=False)])
    return tokenizer


def replaced_model(tokenizer, **changes):
    text = json.loads(tokenizer.to_str())
    text["model"].update(changes)
    return text


def llama2(vocab):
    """BPE over whole texts with bytes for unknown characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    learned(tokenizer, vocab, special=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
            texts=training_texts(FEW_SENTENCES))
    text = replaced_model(tokenizer, byte_fallback=True, fuse_unk=True)
    text["added_tokens"] = [dict(t, normalized=False) for t in text["added_tokens"][:3]]
    # Runs of spaces and of line ends are tokens, too.
    for token in ("\u2581\u2581", "\u2581\u2581\u2581\u2581"):
        text["model"]["vocab"][token] = len(text["model"]["vocab"])
        half = token[: len(token) // 2]
        text["model"]["merges"].append([half, half])
    text["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(text))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def gemma(vocab):
    text = json.loads(llama2(vocab).to_str())
    text["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    text["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    text["decoder"]["decoders"].pop()
    text["post_processor"] = None
    return Tokenizer.from_str(json.dumps(text))


def metaspace(vocab, scheme, unknown):
    """Words that begin with a space; unknown characters as one token, several, or none at all."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    learned(tokenizer, vocab, special=["<unk>", "<s>"], texts=training_texts(FEW_SENTENCES))
    text = replaced_model(tokenizer, fuse_unk=unknown == "fused", unk_token=None if unknown == "none" else "<unk>")
    return Tokenizer.from_str(json.dumps(text))


def unigram(vocab, byte_fallback):
    """Pieces are the commonest parts of words: the package's trainer gives others in every run."""
    counts = collections.Counter()
    for text in training_texts(FEW_SENTENCES):
        for word in text.split():
            word = "\u2581" + word
            counts.update(word[i:j] for i in range(len(word)) for j in range(i + 1, min(i + 8, len(word)) + 1))
    order = sorted(counts, key=lambda piece: (len(piece) > 1, -counts[piece], piece))[: vocab - 2]
    scores = [[piece, round(math.log(counts[piece] / counts.total()), 4)] for piece in order]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("<s>", 0.0)] + [tuple(s) for s in scores], 0))
    tokenizer.add_special_tokens(["<unk>", "<s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    text = json.loads(tokenizer.to_str())
    if byte_fallback:
        text["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
        text["model"]["byte_fallback"] = True
        text["pre_tokenizer"] = None
        text["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "Replace", "pattern": {"Regex": "^ +| +$"}, "content": ""},
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
        text["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]}
    return Tokenizer.from_str(json.dumps(text))


def word_piece(vocab, normalizer, pre_tokenizer, cleanup):
    """Pieces are the commonest beginnings and other parts of words."""
    tokenizer = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    counts = collections.Counter()
    for text in training_texts(FEW_SENTENCES):
        for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text)):
            counts.update(("##" if i else "") + word[i:j] for i in range(len(word))
                          for j in range(i + 1, min(i + 8, len(word)) + 1))
    order = sorted(counts, key=lambda piece: (len(piece.removeprefix("##")) > 1, -counts[piece], piece))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.model = models.WordPiece({token: i for i, token in enumerate((special + order)[:vocab])}, unk_token="[UNK]",
                                       max_input_chars_per_word=60)
    tokenizer.add_special_tokens(special)
    tokenizer.decoder = decoders.WordPiece(cleanup=cleanup)
    return tokenizer


def bert(vocab):
    tokenizer = word_piece(vocab, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), True)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def bert_cased(vocab):
    """Keeps accents, and takes control characters for words."""
    normalizer = normalizers.BertNormalizer(clean_text=False, strip_accents=False, lowercase=False)
    tokenizer = word_piece(vocab, normalizer, pre_tokenizers.BertPreTokenizer(), False)
    tokenizer.post_processor = processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def word_piece_of_words(vocab):
    """As the package's guide makes one."""
    normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    tokenizer = word_piece(vocab, normalizer, pre_tokenizers.Whitespace(), True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def word_piece_of_splits(vocab):
    splits = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")]
    return word_piece(vocab, normalizers.NFC(), pre_tokenizers.Sequence(splits), True)


def decomposed(vocab):
    tokenizer = byte_level(vocab)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.NFD(), normalizers.Lowercase(),
                                                 normalizers.Replace(Regex(r"[\p{Mn}]+"), "")])
    return tokenizer


def plain_bytes(_):
    """Every byte a token: Binade's own."""
    flags = dict(add_prefix_space=False, trim_offsets=False, use_regex=False)
    order = byte_order()
    vocab = {order[b]: b for b in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**flags)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_order():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in kept]
    return {b: chr(b) if b in kept else chr(256 + rest.index(b)) for b in range(256)}


TOKENIZERS = {
    "gpt2": gpt2, "llama3": llama3, "qwen": qwen, "neox": neox, "o200k": o200k, "deepseek": deepseek,
    "behaviors": behaviors, "added": added, "llama2": llama2, "gemma": gemma,
    "metaspace_always": lambda vocab: metaspace(vocab, "always", "fused"),
    "metaspace_first": lambda vocab: metaspace(vocab, "first", "single"),
    "metaspace_never": lambda vocab: metaspace(vocab, "never", "none"),
    "unigram": lambda vocab: unigram(vocab, False), "unigram_bytes": lambda vocab: unigram(vocab, True),
    "decomposed": decomposed, "bytes": plain_bytes,
    "bert": bert, "bert_cased": bert_cased, "word_piece_of_words": word_piece_of_words,
    "word_piece_of_splits": word_piece_of_splits,
}

# What reads the package's older tables of categories, in which characters assigned since are of none.
OLDER_CATEGORIES = {"bert", "bert_cased", "word_piece_of_words", "word_piece_of_splits"}


def is_categorized_alike(c):
    category = unicodedata.category(c)
    if (normalizers.StripAccents().normalize_str("a" + c) == "a") != (category[0] == "M"):
        return False
    if category in ("Cf", "Mn"):
        clean = normalizers.BertNormalizer(category == "Cf", False, category == "Mn", False)
        return clean.normalize_str("a" + c) == "a" or unicodedata.decomposition(c) != ""
    if category[0] != "P":
        return True
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str("a" + c)) == 2


UNCATEGORIZED = {c for c in ASSIGNED if not is_categorized_alike(c)}


def lines_for(name, count, seed):
    lines = lines_of(count, seed)
    if name not in OLDER_CATEGORIES:
        return lines
    return ["".join(c for c in line if c not in UNCATEGORIZED) for line in lines]


def cases_of(tokenizer, texts, seed):
    rng = random.Random(seed)
    size = max(tokenizer.get_vocab().values()) + 1
    encoded = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        encoded.append([text, ids, tokenizer.decode(ids)])
    known = set(tokenizer.get_vocab().values())
    decoded = []
    for _ in range(len(texts) // 4):
        ids = [i for i in (rng.randrange(size) for _ in range(rng.randint(1, 8))) if i in known]
        decoded.append([ids, tokenizer.decode(ids)])
    framed = tokenizer.encode("a", add_special_tokens=True).ids
    return {"vocab": size, "with_template": framed, "encoded": encoded, "decoded": decoded}


def trained(vocab):
    text = "\n".join(training_texts())
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return {"text": text, "vocab": vocab, "merges": json.loads(tokenizer.to_str())["model"]["merges"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--vocab", type=int, default=500)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "tokenizers")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, (name, make) in enumerate(TOKENIZERS.items()):
        tokenizer = make(arguments.vocab)
        text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        tokenizer = Tokenizer.from_str(text)
        (arguments.out / f"{name}.json").write_text(text + "\n")
        cases = cases_of(tokenizer, lines_for(name, arguments.lines, number), number)
        (arguments.out / f"{name}.cases.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
        print(f"{name}: {len(cases['encoded'])} texts, {len(cases['decoded'])} lists of ids")
    learned_merges = json.dumps(trained(arguments.vocab), separators=(",", ":"))
    (arguments.out / "trained.json").write_text(learned_merges + "\n")
    print(f"tokenizers {tokenizers.__version__}; left out, with newer normal forms: {len(LATER)} characters; "
          f"with a newer category: {len(UNCATEGORIZED)}")


if __name__ == "__main__":
    main()
