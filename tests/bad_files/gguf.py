"""GGUF files."""
import math
import struct

from cases import case

# ---- gguf ----

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
NUMBERS = {0: "<B", 2: "<H", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 12: "<d"}


def gguf_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_text(value)
    if kind == ARRAY:
        element, items = value
        return struct.pack("<IQ", element, len(items)) + b"".join(gguf_value(element, item) for item in items)
    return struct.pack(NUMBERS[kind], value)


def gguf_key(name, kind, value):
    return gguf_text(name) + struct.pack("<I", kind) + gguf_value(kind, value)


# A Llama of one layer with four tokens.
GGUF_KEYS = {
    "general.architecture": (STRING, "llama"),
    "llama.block_count": (U32, 1),
    "llama.context_length": (U32, 16),
    "llama.embedding_length": (U32, 8),
    "llama.feed_forward_length": (U32, 8),
    "llama.attention.head_count": (U32, 2),
    "llama.attention.head_count_kv": (U32, 1),
    "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
    "tokenizer.ggml.model": (STRING, "gpt2"),
    "tokenizer.ggml.pre": (STRING, "gpt-2"),
    "tokenizer.ggml.tokens": (ARRAY, (STRING, ["a", "b", "ab", "</s>"])),
    "tokenizer.ggml.token_type": (ARRAY, (I32, [1, 1, 1, 3])),
    "tokenizer.ggml.merges": (ARRAY, (STRING, ["a b"])),
    "tokenizer.ggml.eos_token_id": (U32, 3),
    "tokenizer.ggml.add_bos_token": (BOOL, 0),
}
GGUF_TENSORS = {  # sizes, the fastest first
    "token_embd.weight": [8, 4], "output_norm.weight": [8], "blk.0.attn_norm.weight": [8],
    "blk.0.attn_q.weight": [8, 8], "blk.0.attn_k.weight": [8, 4], "blk.0.attn_v.weight": [8, 4],
    "blk.0.attn_output.weight": [8, 8], "blk.0.ffn_norm.weight": [8], "blk.0.ffn_gate.weight": [8, 8],
    "blk.0.ffn_up.weight": [8, 8], "blk.0.ffn_down.weight": [8, 8],
}


def gguf_entry(name, sizes, kind=0, offset=0, dimensions=None):
    return (gguf_text(name) + struct.pack("<I", len(sizes) if dimensions is None else dimensions)
            + b"".join(struct.pack("<q", size) for size in sizes) + struct.pack("<IQ", kind, offset))


def gguf_file(keys=None, tensors=None, start=b"GGUF", version=3, counts=None, tail=b"", cut=0):
    """Keys as bytes or as name: (type, value); tensors as bytes of entries or as name: sizes."""
    keys = GGUF_KEYS if keys is None else keys
    keys = [gguf_key(name, *value) for name, value in keys.items()] if isinstance(keys, dict) else keys
    entries, data = tensors, b""
    if tensors is None or isinstance(tensors, dict):
        entries = []
        for name, sizes in (GGUF_TENSORS if tensors is None else tensors).items():
            entries.append(gguf_entry(name, sizes, 0, len(data)))
            data += struct.pack("<f", 0.5) * math.prod(sizes)
            data += b"\0" * (-len(data) % 32)
    counts = (len(entries), len(keys)) if counts is None else counts
    head = start + struct.pack("<Iqq", version, *counts) + b"".join(keys) + b"".join(entries)
    content = head + b"\0" * (-len(head) % 32) + data + tail
    return content[:len(content) - cut]


def gguf():
    gguf_envelopes()
    gguf_fields()
    gguf_models()
    gguf_tokenizers()


def gguf_case(name, content, *parts):
    case(f"gguf/{name}.gguf", content, *parts)


def gguf_with(label, name, value, *parts):
    """The good file with another value of a key; without the key if it is None."""
    keys = {k: v for k, v in {**GGUF_KEYS, name: value}.items() if v is not None}
    gguf_case(label, gguf_file(keys), *parts)


def gguf_envelopes():
    gguf_case("empty", b"", "at byte 0 (header)", "at least 24 bytes, found 0", "cut short")
    gguf_case("magic_alone", b"GGUF", "at least 24 bytes, found 4")
    gguf_case("magic_other", gguf_file(start=b"GGML"), "at byte 0 (magic)", '"GGUF"', '"GGML"')
    gguf_case("version_1", gguf_file(version=1), "at byte 4 (version)", "2 or 3, found 1", "newer converter")
    gguf_case("version_big_endian", gguf_file(version=3 << 24), "2 or 3", "big-endian")
    gguf_case("version_4", gguf_file(version=4), "2 or 3, found 4")
    gguf_case("tensors_negative", gguf_file(counts=(-1, 1)), "at byte 8 (number of tensors)", "found -1")
    gguf_case("tensors_many", gguf_file(counts=(1 << 62, 1)), "(number of tensors)", f"found {1 << 62}", "damaged")
    gguf_case("keys_negative", gguf_file(counts=(0, -5)), "at byte 16 (number of keys)", "found -5")
    gguf_case("keys_many", gguf_file(counts=(0, 1 << 40)), "(number of keys)", f"found {1 << 40}")
    gguf_case("data_cut", gguf_file(cut=40), "data that end within", "cut short")
    gguf_case("data_more", gguf_file(tail=b"\1" * 100), "the end of the file", "100 bytes more")


def gguf_fields():
    one, array = gguf_text("x"), struct.pack("<I", ARRAY)

    def key(label, content, *parts):
        gguf_case(label, gguf_file([content]), *parts)

    def entry(label, content, *parts):
        gguf_case(label, gguf_file(tensors=[content]), *parts)

    key("key_without_name", gguf_key("", U32, 1), "(key 0, name)", "at least one byte")
    key("key_name_long", struct.pack("<Q", 1 << 60) + b"x" * 64, "(key 0, name)", f"found {1 << 60}")
    key("key_name_not_utf8", gguf_key(b"a\xff", U32, 1), "(key 0, name)", "UTF-8")
    key("key_name_escape", gguf_text("\x1b[31m") + struct.pack("<I", 99), "\\x1b[31m", "from 0 to 12, found 99")
    key("key_type_unknown", one + struct.pack("<II", 13, 0), "(x)", "a type from 0 to 12, found 13")
    gguf_case("key_twice", gguf_file([gguf_key("x", U32, 1)] * 2), "(key 1)", '"x" again')
    gguf_case("key_cut", gguf_file([gguf_key("x", 12, 1.0)], [], cut=24), "(x)", "8 bytes, found", "cut short")
    key("key_bool_2", gguf_key("x", BOOL, 2), "(x)", "0 or 1 for a bool, found 2")
    key("key_text_long", one + struct.pack("<IQ", STRING, 1 << 33), "(x)", f"found {1 << 33}")
    key("array_of_arrays", one + array + struct.pack("<IQ", ARRAY, 0), "(x)", "an array of arrays")
    key("array_type_unknown", one + array + struct.pack("<IQ", 77, 0), "(x)", "found 77")
    key("array_long", one + array + struct.pack("<IQ", U32, 1 << 29), "(x)", "elements", f"found {1 << 29}")
    key("array_huge", one + array + struct.pack("<IQ", 0, (1 << 64) - 1), "(x)", f"found {(1 << 64) - 1}")
    key("array_of_texts_long", one + array + struct.pack("<IQ", STRING, 1 << 20), "(x)", f"found {1 << 20}")
    key("array_text_cut", one + array + struct.pack("<IQQ", STRING, 1, 1 << 20), "(x)", "a length of at most")
    key("array_bool_7", gguf_key("x", ARRAY, (BOOL, [1, 0, 7, 1])), "(x)", "0 or 1 for a bool, found 7")
    alignment = "general.alignment"
    gguf_with("alignment_text", alignment, (STRING, "32"), "(general.alignment)", "a power of two", '"32"')
    gguf_with("alignment_u64", alignment, (U64, 32), "(general.alignment)", "as u32")
    gguf_with("alignment_24", alignment, (U32, 24), "(general.alignment)", "a power of two", "found 24")
    gguf_with("alignment_0", alignment, (U32, 0), "(general.alignment)", "found 0")
    gguf_with("alignment_huge", alignment, (U32, 1 << 31), "(general.alignment)", f"found {1 << 31}")
    entry("tensor_without_name", gguf_entry("", [4]), "(tensor 0, name)", "at least one byte")
    entry("tensor_name_64", gguf_entry("x" * 64, [4]), "(tensor 0, name)", "a length of at most 63, found 64")
    entry("tensor_dimensions_5", gguf_entry("x", [1] * 5), '("x")', "at most 4 dimensions, found 5")
    entry("tensor_dimensions_many", gguf_entry("x", [], dimensions=1 << 31), "at most 4 dimensions")
    entry("tensor_size_negative", gguf_entry("x", [4, -1]), '("x")', "a size of at least 0, found -1")
    entry("tensor_product_overflows", gguf_entry("x", [1 << 40, 1 << 40]), '("x")', "fewer than 2^63 bytes")
    entry("tensor_bytes_overflow", gguf_entry("x", [1 << 61, 2]), '("x")', "fewer than 2^63 bytes")
    entry("tensor_empty_overflows", gguf_entry("x", [0, 1 << 40, 1 << 40]), '("x")', "fewer than 2^63 bytes")
    for number in (4, 5, 31, 38, 43, 1 << 31):
        entry(f"tensor_type_{number}", gguf_entry("x", [32], number), "a type of tensors", f"number {number}")
    entry("tensor_row_not_of_blocks", gguf_entry("x", [40, 2], 8), "whole blocks of 32 for Q8_0, found 40")
    entry("tensor_row_not_of_large_blocks", gguf_entry("x", [128], 12), "whole blocks of 256 for Q4_K", "128")
    entry("tensor_offset", gguf_entry("x", [4], 0, 32), '("x")', "offset 0", "found 32")
    entry("tensor_past_the_end", gguf_entry("x", [1 << 30]), '("x")', "data that end within", "cut short")
    both = [gguf_entry("x", [8]), gguf_entry("y", [8], 0, 0)]
    gguf_case("tensor_twice", gguf_file(tensors=[gguf_entry("x", [0])] * 2), "(tensor 1)", '"x" again')
    gguf_case("tensors_overlap", gguf_file(tensors=both), '("y")', "offset 32", "found 0")
    both[1] = gguf_entry("y", [8], 0, 64)
    gguf_case("tensors_with_a_hole", gguf_file(tensors=both), '("y")', "offset 32", "found 64")


def gguf_models():
    eps = "llama.attention.layer_norm_rms_epsilon"
    gguf_with("not_a_model", "general.type", (STRING, "adapter"), "(general.type)", "model", '"adapter"')
    gguf_with("a_part", "split.count", (2, 3), "(split.count)", "a model in one file", "found 3", "merge")
    gguf_with("architecture_missing", "general.architecture", None, "the key general.architecture")
    gguf_with("architecture_a_number", "general.architecture", (U32, 1), "(general.architecture)", "a string, found 1")
    gguf_with("architecture_unknown", "general.architecture", (STRING, "mamba"), "one of gpt2, llama", '"mamba"')
    gguf_with("layers_missing", "llama.block_count", None, "the key llama.block_count")
    gguf_with("layers_zero", "llama.block_count", (U32, 0), "a whole number from 1 to 4096, found 0")
    gguf_with("layers_many", "llama.block_count", (U32, 5000), "a whole number from 1 to 4096, found 5000")
    gguf_with("layers_a_fraction", "llama.block_count", (F32, 1.5), "a whole number from 1 to 4096, found 1.5")
    gguf_with("width_missing", "llama.embedding_length", None, "the key llama.embedding_length")
    gguf_with("width_u64", "llama.embedding_length", (U64, (1 << 64) - 1), "a whole number below 2^63")
    gguf_with("hidden_per_layer", "llama.feed_forward_length", (ARRAY, (U32, [8])), "one number for all layers")
    gguf_with("heads_no_divisor", "llama.attention.head_count", (U32, 3), "a divisor of 8, found 3")
    gguf_with("kv_heads_no_divisor", "llama.attention.head_count_kv", (U32, 3), "a divisor of 2, found 3")
    gguf_with("context_huge", "llama.context_length", (U32, 1 << 30), "(llama.context_length)", f"found {1 << 30}")
    gguf_with("eps_missing", eps, None, f"the key {eps}")
    gguf_with("eps_zero", eps, (F32, 0.0), "more than 0, found 0")
    gguf_with("eps_nan", eps, (F32, float("nan")), "a finite number, found nan")
    gguf_with("eps_a_text", eps, (STRING, "1e-5"), "a finite number", '"1e-5"')
    gguf_with("head_sizes_differ", "llama.attention.value_length", (U32, 2), "4, found 2")
    gguf_with("rope_partial", "llama.rope.dimension_count", (U32, 2), "4, the size of a head, found 2")
    gguf_with("rope_yarn", "llama.rope.scaling.type", (STRING, "yarn"), "none or linear", '"yarn"')
    gguf_with("rope_linear_alone", "llama.rope.scaling.type", (STRING, "linear"), "the key llama.rope.scaling.factor")
    gguf_with("rope_base_negative", "llama.rope.freq_base", (F32, -1.0), "more than 0, found -1")
    gguf_with("rope_attention_factor", "llama.rope.scaling.attn_factor", (F32, 2.0), "does not scale attention", "found 2")

    def tensors(label, changed, *parts):
        gguf_case(label, gguf_file(tensors={**GGUF_TENSORS, **changed}), *parts)

    tensors("rope_divisors_others", {"rope_freqs.weight": [2]}, "(rope_freqs.weight)", "Llama 3's")
    tensors("rope_factors_long", {"rope_factors_long.weight": [2]}, "longrope")
    tensors("embedding_a_vector", {"token_embd.weight": [32]}, "token_embd.weight", "F32 [32]")
    gguf_case("embedding_missing", gguf_file(tensors={}), "a matrix token_embd.weight, found none")


def gguf_tokenizers():
    def tokenizer(label, name, value, *parts):
        gguf_with(label, f"tokenizer.ggml.{name}", value, *parts)

    def texts(*items):
        return ARRAY, (STRING, list(items))

    tokenizer("tokenizer_unknown", "model", (STRING, "bert"), "gpt2 or llama", '"bert"')
    tokenizer("split_missing", "pre", None, "the key tokenizer.ggml.pre")
    tokenizer("split_unknown", "pre", (STRING, "tekken"), "one of gpt-2", '"tekken"')
    tokenizer("tokens_missing", "tokens", None, "the key tokenizer.ggml.tokens")
    tokenizer("tokens_of_numbers", "tokens", (ARRAY, (U32, [1, 2])), "an array of strings", "an array of 2 u32")
    tokenizer("tokens_none", "tokens", texts(), "1 to 4194303 tokens")
    tokenizer("tokens_too_many", "tokens", texts("a", "b", "ab", "</s>", "c"), "as many as there are tokens, 5")
    tokenizer("token_empty", "tokens", texts("a", "b", "ab", ""), "not empty", "token 3")
    tokenizer("token_not_utf8", "tokens", texts("a", "b", "ab", b"\xff"), "UTF-8")
    tokenizer("token_twice", "tokens", texts("a", "b", "ab", "a"), "tokens that differ", '"a" twice')
    tokenizer("token_types_fewer", "token_type", (ARRAY, (I32, [1, 1])), "as many as there are tokens, 4")
    tokenizer("token_type_9", "token_type", (ARRAY, (I32, [1, 1, 1, 9])), "types from 1 to 6")
    tokenizer("merges_missing", "merges", None, "the key tokenizer.ggml.merges")
    tokenizer("merge_of_one", "merges", texts("ab"), "two tokens with a space")
    tokenizer("merge_empty", "merges", texts(""), "two tokens with a space")
    tokenizer("merge_of_unknown", "merges", texts("a c"), "merges of tokens", '"c"')
    tokenizer("begin_not_a_bool", "add_bos_token", (U32, 1), "a bool, found 1")
    pieces = {**GGUF_KEYS, "tokenizer.ggml.model": (STRING, "llama")}

    def scores(label, values, *parts):
        value = {} if values is None else {"tokenizer.ggml.scores": (ARRAY, (F32, values))}
        gguf_case(label, gguf_file({**pieces, **value}), *parts)

    scores("scores_missing", None, "the key tokenizer.ggml.scores")
    scores("scores_fewer", [0.0], "as many as there are tokens, 4")
    scores("scores_nan", [0.0, 1.0, float("nan"), 0.0], "a finite number")
    scores("no_unknown_token", [0.0] * 4, "of type 2")
