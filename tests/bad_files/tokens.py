"""Token files and tokenizers."""
import json
import struct

from cases import case, replaced

# ---- token files; the vocabulary is 100, a batch 17 ids ----


def ids(values, code="H"):
    return struct.pack(f"<{len(values)}{code}", *values)


def shard(magic, version, count, body):
    return struct.pack("<3i", magic, version, count) + bytes(1024 - 12) + body


def tokens():
    def tk(name, content, *parts):
        case(f"tokens/{name}.bin", content, *parts)

    good = [i % 100 for i in range(60)]
    tk("empty", b"", "ids, found the end of the file")
    tk("odd_bytes", b"abc", "a whole number of 16-bit ids")
    tk("past_the_vocabulary", ids(good[:50] + [100] + good[51:]), "byte 100", "below the vocabulary's 100, found 100")
    tk("largest_id", ids([65535] * 60), "byte 0", "found 65535")
    tk("shorter_than_a_batch", ids(good[:10]), "at least one batch of 17 ids, found 10")
    tk("a_model_of_llm_c", shard(20240326, 3, 60, ids(good)), "byte 0", "another kind of llm.c file")
    tk("magic_of_another_day", shard(20250101, 1, 60, ids(good)), "byte 0", "the magic number", "20250101")
    tk("version_two", shard(20240520, 2, 60, ids(good)), "byte 4", "version 1, found 2")
    tk("version_of_the_other", shard(20240801, 1, 60, ids(good, "I")), "byte 4", "version 7, found 1")
    tk("count_too_large", shard(20240520, 1, 61, ids(good)), "byte 8", "60, found 61", "cut short")
    tk("count_too_small", shard(20240520, 1, 59, ids(good)), "byte 8", "60, found 59")
    tk("count_negative", shard(20240520, 1, -1, ids(good)), "byte 8", "found -1")
    tk("count_huge", shard(20240520, 1, 2**31 - 1, ids(good)), "byte 8", "found 2147483647")
    tk("a_byte_more", shard(20240520, 1, 60, ids(good) + b"x"), "byte 8", "the number of ids")
    tk("cut_in_the_header", shard(20240520, 1, 60, b"")[:500], "byte 500", "a header of 1024 bytes")
    tk("header_alone", shard(20240520, 1, 0, b""), "byte 1024", "ids, found the end of the file")
    tk("wide_as_narrow", shard(20240520, 1, 60, ids(good, "I")), "byte 8", "120, found 60")
    tk("narrow_as_wide", shard(20240801, 7, 60, ids(good)), "byte 8", "30, found 60")
    tk("shard_past_the_vocabulary", shard(20240520, 1, 60, ids(good[:59] + [300])), "byte 1142", "found 300")
    tk("wide_past_the_vocabulary", shard(20240801, 7, 60, ids([1] * 59 + [2**32 - 1], "I")), "byte 1260",
       "found 4294967295")
    tk("shard_shorter_than_a_batch", shard(20240520, 1, 16, ids(good[:16])), "one batch of 17 ids, found 16")


# ---- tokenizers ----


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(text, kind=1, score=0.0):
    return field(1, field(1, text) + field(2, score) + field(3, kind))


def charsmap(units, texts, size=None):
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie) if size is None else size) + trie + texts


def tokenizer():
    def tz(name, content, *parts):
        case(f"tokenizer/{name}.model", content, *parts)

    def with_charsmap(name, content, *parts):
        tz(name, PIECES + BPE + field(3, field(2, content)), *parts)

    unknown = piece("<unk>", 2)
    PIECES = unknown + piece("a") + piece("b") + piece("ab", 1, -1.0)
    BPE = field(2, field(3, 2))
    tz("empty", b"", "byte 0", "an empty file")
    tz("a_text", "Once upon a time there was a piece.", "byte")
    tz("a_zip", b"PK\x03\x04\x14\x08\x08\x08\x08 and more", "byte")
    tz("no_pieces", BPE, "byte 4", "pieces, found the end of the file")
    tz("cut_short", (PIECES + BPE)[:-1], "byte")
    tz("cut_in_a_piece", PIECES[:10], "a field within its message")
    tz("tag_zero", b"\0\0", "byte 0", "the tag of a field, found 0")
    tz("tag_too_large", varint(2**35) + b"\0", "byte 0", "the tag of a field")
    tz("varint_without_end", b"\x80" * 12, "a number of at most 10 bytes")
    tz("group", varint(1 << 3 | 3) + PIECES, "byte 0", "wire type 0, 1, 2 or 5, found 3")
    tz("wire_type_seven", varint(1 << 3 | 7), "byte 0", "found 7")
    tz("length_past_the_end", b"\x0a\xff\xff\xff\xff\x0f", "a field within its message", "4294967295 bytes")
    tz("length_2_63", b"\x0a" + varint(2**63), "9223372036854775808 bytes")
    tz("fixed_cut_short", varint(9 << 3 | 1) + b"\1\2", "a field within its message")
    tz("piece_empty", PIECES + piece(""), "a piece with a text, found an empty one")
    tz("piece_without_fields", PIECES + b"\x0a\0", "a piece with a text")
    tz("piece_with_zero_byte", PIECES + piece("a\0b"), "a piece without zero bytes")
    tz("piece_too_long", PIECES + piece("x" * 4097), "a piece of at most 4096 bytes, found 4097")
    tz("piece_twice", PIECES + piece("a") + BPE, "a is already defined")
    tz("piece_of_type_nine", PIECES + piece("c", 9), "a piece of type 1 to 6, found 9")
    tz("score_nan", PIECES + piece("c", 1, float("nan")), "a score of at most 1e9", "nan")
    tz("score_infinite", PIECES + piece("c", 1, float("-inf")), "a score of at most 1e9", "-inf")
    tz("no_unknown", piece("a") + piece("b") + BPE, "unk is not defined")
    tz("unknown_twice", PIECES + piece("<unk2>", 2) + BPE, "unk is already defined")
    tz("byte_without_fallback", PIECES + piece("<0x0A>", 6) + BPE, "byte_fallback")
    tz("byte_fallback_without_bytes", PIECES + field(2, field(3, 2) + field(35, 1)), "256 byte pieces")
    tz("word_model", PIECES + field(2, field(3, 3)), "type 1 (unigram) or 2 (BPE), found 3")
    tz("char_model", PIECES + field(2, field(3, 4)), "type 1 (unigram) or 2 (BPE), found 4")
    tz("model_type_huge", PIECES + field(2, field(3, 2**31 - 1)), "found 2147483647")
    tz("many_symbols_alike", PIECES + BPE + b"".join(piece("x" * n, 4) for n in range(1, 70)),
       "at most 64 user-defined symbols that begin alike")
    tz("self_test_that_fails", PIECES + BPE + field(4, field(1, field(1, "ab") + field(2, "b a"))), "Self-test failures")
    block = [0x80000000] * 256
    with_charsmap("charsmap_two_bytes", b"\1\2", "the size of a trie", "2 bytes")
    with_charsmap("charsmap_three_bytes", b"\1\2\3", "the size of a trie", "3 bytes, found 0")
    with_charsmap("charsmap_size_alone", charsmap([], b"", 8), "the size of a trie", "4 bytes, found 8")
    with_charsmap("charsmap_without_texts", charsmap(block, b""), "a zero byte at the end")
    with_charsmap("charsmap_size_past_the_end", charsmap(block, b"x\0", 10**6), "the size of a trie", "found 1000000")
    with_charsmap("charsmap_size_odd", charsmap(block, b"x\0", 1023), "the size of a trie", "found 1023")
    with_charsmap("charsmap_no_trie", charsmap([], b"x\0"), "the size of a trie", "found 0")
    with_charsmap("charsmap_text_without_end", charsmap(block, b"x"), "a zero byte at the end")
    with_charsmap("charsmap_text_too_long", charsmap(block, b"x" * 300 + b"\0"), "texts of at most 256 bytes")
    with_charsmap("charsmap_root_outside", charsmap([5000 << 10] + block[1:], b"x\0"), "states stay within its 256 units")
    with_charsmap("charsmap_cut_block", charsmap(block[:100], b"x\0"), "states stay within its 100 units")
    # The root's children are in the second block: 'a' (0x61) leads back to it, ...
    cyclic = [0x100 << 10] + block[1:] + block
    cyclic[0x161] = 0x61 << 10 | 0x61
    with_charsmap("charsmap_cycle", charsmap(cyclic, b"x\0"), "at most 64 bytes", "endless")
    # ... or to the third block, where its value points past the texts.
    far = [0x100 << 10] + block[1:] + block + block
    far[0x161] = (0x161 ^ 0x200) << 10 | 1 << 8 | 0x61
    far[0x200] = 0x80000000 | 77
    with_charsmap("charsmap_value_outside", charsmap(far, b"x\0"), "values within the 2 bytes of texts, found 77")


# ---- tokenizer.json ----

TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": 3, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True}],
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"String": "x"}, "content": "y"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": " ?\\p{L}+"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
    "post_processor": {"type": "TemplateProcessing",
                       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
              "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]], "byte_fallback": False}
WORD_PIECE = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
              "vocab": {"<unk>": 0, "a": 1}}


def tokenizer_json():
    good = json.dumps(TOKENIZER)

    def tj(name, content, *parts):
        case(f"tokenizer_json/{name}.json", content, *parts)

    def changed(name, path, value, *parts):
        """The good file with one value changed, or taken away (...)."""
        content = json.loads(good)
        place = content
        *way, last = path
        for step in way:
            place = place[step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        tj(name, json.dumps(content), *parts)

    def normalizer(name, value, *parts):
        changed(name, ["normalizer"], value, *parts)

    def pattern(name, regex, *parts):
        changed(name, ["pre_tokenizer", "pretokenizers", 0, "pattern"], {"Regex": regex}, "pattern.Regex", *parts)

    def other_model(model, name, changes, *parts):
        merged = {k: v for k, v in {**model, **changes}.items() if v is not ...}
        content = {**json.loads(good), "model": merged, "pre_tokenizer": None, "added_tokens": [], "post_processor": None}
        tj(name, json.dumps(content), *parts)

    def unigram(*arguments):
        other_model(UNIGRAM, *arguments)

    def word_piece(*arguments):
        other_model(WORD_PIECE, *arguments)

    tj("empty", "", "unexpected end of input")
    tj("a_text", "Once upon a time there was a token.", "invalid literal")
    tj("array", "[]", "an object, found an array of 0")
    tj("cut_short", good[: len(good) // 2], "expected JSON")
    tj("byte_order_mark", b"\xef\xbb\xbf" + good.encode(), "byte order mark")
    tj("nested", '{"model":' * 100, "at most 64 levels")
    tj("member_twice", good[:-1] + ',"version":"1.0"}', '"version" twice')
    tj("token_twice", replaced(good, '"b": 1', '"a": 1'), '"a" twice')
    tj("not_utf8", good.encode().replace(b'"b": 1', b'"\xff": 1'), "UTF-8")
    changed("version_two", ["version"], "2.0", "(version)", '"1.0", found "2.0"')
    changed("no_version", ["version"], ..., 'a member "version"')
    changed("no_model", ["model"], ..., 'a member "model"')
    changed("unknown_member", ["chat_template"], "x", "(chat_template)", "no members but version", 'found "chat_template"')
    changed("truncation", ["truncation"], {"max_length": 5}, "(truncation)", "null, found an object of 1")
    changed("padding", ["padding"], {"strategy": "BatchLongest"}, "(padding)", "null")
    # Models.
    changed("word_level", ["model"], {"type": "WordLevel", "vocab": {}}, "(model.type)", "BPE, Unigram or WordPiece", '"WordLevel"')
    changed("model_without_type", ["model"], {"vocab": {}}, 'a member "type"')
    changed("vocab_empty", ["model", "vocab"], {}, "(model.vocab)", "tokens, found none")
    changed("vocab_an_array", ["model", "vocab"], [], "(model.vocab)", "an object")
    changed("id_negative", ["model", "vocab", "b"], -1, "(model.vocab.b)", "found -1")
    changed("id_huge", ["model", "vocab", "b"], 2**31, "(model.vocab.b)", "found 2147483648")
    changed("id_fraction", ["model", "vocab", "b"], 1.5, "found 1.5")
    changed("id_twice", ["model", "vocab", "b"], 0, "ids that differ", '"a"')
    changed("token_empty", ["model", "vocab", ""], 7, "tokens that are not empty")
    changed("merge_of_three", ["model", "merges"], ["a b c"], "(model.merges[0])", "two tokens with a space")
    changed("merge_of_one", ["model", "merges"], [["a"]], "two tokens, found an array of 1")
    changed("merge_a_number", ["model", "merges"], [1], "(model.merges[0])", "an array, found 1")
    changed("merge_unknown", ["model", "merges"], [["a", "c"]], "tokens of the vocabulary", '"c"')
    changed("merge_without_result", ["model", "merges"], [["b", "a"]], "tokens of the vocabulary", '"ba"')
    changed("dropout", ["model", "dropout"], 0.1, "(model.dropout)", "found 0.1")
    changed("subword_prefix", ["model", "continuing_subword_prefix"], "##", "(model.continuing_subword_prefix)", '"##"')
    changed("word_suffix", ["model", "end_of_word_suffix"], "</w>", "(model.end_of_word_suffix)")
    changed("flag_a_number", ["model", "fuse_unk"], 1, "(model.fuse_unk)", "true or false, found 1")
    changed("model_member_unknown", ["model", "cache"], 3, "(model.cache)", "no members but type")
    unigram("unigram_empty", {"vocab": []}, "(model.vocab)", "tokens, found none")
    unigram("unigram_score_text", {"vocab": [["a", "b"]]}, "a number")
    unigram("unigram_score_huge", {"vocab": [["a", 1e300]]}, "at most 1e9 in magnitude")
    unigram("unigram_unknown_outside", {"unk_id": 2}, "(model.unk_id)", "from 0 to 1, found 2")
    unigram("unigram_three", {"vocab": [["a", 1, 2]]}, "a token and its score")
    changed("unigram_of_bytes", ["model"], UNIGRAM, "a BPE model behind ByteLevel")
    word_piece("word_piece_empty", {"vocab": {}}, "(model.vocab)", "tokens, found none")
    word_piece("word_piece_without_unknown", {"unk_token": ...}, 'a member "unk_token"')
    word_piece("word_piece_prefix_empty", {"continuing_subword_prefix": ""}, "(model.continuing_subword_prefix)", "an empty one")
    word_piece("word_piece_length", {"max_input_chars_per_word": -1}, "(model.max_input_chars_per_word)", "found -1")
    word_piece("word_piece_more", {"dropout": 0.1}, "(model.dropout)", "no members but type")
    changed("word_piece_of_bytes", ["model"], WORD_PIECE, "a BPE model behind ByteLevel")
    # Added tokens.
    changed("added_id_other", ["added_tokens", 0, "id"], 9, "(added_tokens[0].id)", "3, the next, found 9")
    changed("added_id_of_the_model", ["added_tokens", 0, "content"], "ab", "2, as in the vocabulary, found 3")
    changed("added_empty", ["added_tokens", 0, "content"], "", "a text, found an empty one")
    changed("added_twice", ["added_tokens"], TOKENIZER["added_tokens"] * 2, '"<s>" twice')
    changed("added_without_flag", ["added_tokens", 0, "lstrip"], ..., 'a member "lstrip"')
    changed("added_with_more", ["added_tokens", 0, "score"], 1, "no members but id", '"score"')
    alike = [{**TOKENIZER["added_tokens"][0], "normalized": True, "content": c, "id": i} for i, c in ((3, "x"), (4, "y"))]
    changed("added_normalize_alike", ["added_tokens"], alike, "(added_tokens[1])", "a text of its own")
    # Normalizers.
    normalizer("normalizer_unknown", {"type": "Nmt"}, "(normalizer.type)", "NFC, NFD", '"Nmt"')
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    normalizer("bert_normalizer_more", {**bert, "nfc": True}, "(normalizer.nfc)", "no members but type")
    normalizer("bert_normalizer_a_number", {**bert, "strip_accents": 1}, "(normalizer.strip_accents)", "true or false")
    normalizer("normalizer_precompiled", {"type": "Precompiled", "precompiled_charsmap": "AA=="}, '"Precompiled"')
    normalizer("normalizer_without_type", {}, 'a member "type"')
    normalizer("normalizer_a_string", "NFC", "an object")
    normalizer("normalizer_more", {"type": "NFC", "version": 15}, "no members but type")
    normalizer("replace_nothing", {"type": "Replace", "pattern": {"String": ""}, "content": "x"}, "a text, found an empty")
    normalizer("replace_unknown", {"type": "Replace", "pattern": {"Glob": "*"}, "content": "x"}, "no members but String")
    normalizer("replace_long", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 5000}, "at most 4096 bytes")
    normalizer("steps_many", {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 65}, "at most 64 steps")
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
    changed("replace_grows", ["normalizer"], {"type": "Sequence", "normalizers": [grow] * 8}, "the normalizer", "more")
    # Pre-tokenizers.
    pattern("pattern_broken", "(", "PCRE2 reads", "missing closing parenthesis")
    pattern("pattern_word", "\\w+", "Oniguruma and PCRE2 read differently")
    pattern("pattern_verb", "(*UTF)a", '"(*"')
    pattern("pattern_nested", "(" * 300 + ")" * 300, "PCRE2 reads", "parentheses are too deeply nested")
    pattern("pattern_huge", "(?:(?:a{1,65535}){1,65535}){1,65535}", "PCRE2 reads")
    pattern("pattern_empty", "", "a text, found an empty one")
    pattern("pattern_control", "\u001b[31m(", "\\x1b[31m(")
    changed("split_behavior", ["pre_tokenizer", "pretokenizers", 0, "behavior"], "Joined", "Isolated, Removed", '"Joined"')
    changed("byte_level_first", ["pre_tokenizer", "pretokenizers"],
            TOKENIZER["pre_tokenizer"]["pretokenizers"][::-1], "ByteLevel as the last")
    changed("pre_tokenizer_unknown", ["pre_tokenizer"], {"type": "UnicodeScripts"}, "(pre_tokenizer.type)", "Split, ByteLevel")
    changed("white_space_more", ["pre_tokenizer"], {"type": "Whitespace", "behavior": "Removed"}, "no members but type")
    changed("punctuation_behavior", ["pre_tokenizer"], {"type": "Punctuation", "behavior": 1}, "(pre_tokenizer.behavior)")
    changed("metaspace_two", ["pre_tokenizer"], {"type": "Metaspace", "replacement": "__"}, "one character")
    changed("metaspace_scheme", ["pre_tokenizer"],
            {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}, "always, first or never")
    # Decoders and post-processors.
    changed("decoder_word_piece", ["decoder"], {"type": "WordPiece", "prefix": "##"}, 'a member "cleanup"')
    changed("decoder_unknown", ["decoder"], {"type": "CTC"}, "(decoder.type)", "ByteLevel, ByteFallback")
    changed("decoder_bytes_twice", ["decoder"], {"type": "Sequence", "decoders": [TOKENIZER["decoder"]] * 2},
            "ByteLevel before what makes bytes")
    changed("decoder_regex", ["decoder"], {"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}, "no members but String")
    changed("decoder_strip_two", ["decoder"], {"type": "Strip", "content": "ab", "start": 1, "stop": 0}, "one character")
    changed("processor_unknown", ["post_processor"], {"type": "Other"}, "(post_processor.type)", '"Other"')
    frame = {"type": "BertProcessing", "cls": ["<s>", 3], "sep": ["<s>", 3]}
    changed("bert_processing_of_one", ["post_processor"], {**frame, "sep": ["<s>"]}, "(post_processor.sep)", "a token and its id")
    changed("bert_processing_outside", ["post_processor"], {**frame, "cls": ["<s>", 4]}, "below the vocabulary's 4, found 4")
    changed("template_after_another", ["post_processor"], {"type": "Sequence", "processors": [frame, frame]}, "one template")
    changed("template_without_text", ["post_processor", "single"], [], "a place for the text")
    changed("template_two_texts", ["post_processor", "single"], [{"Sequence": {"id": "A", "type_id": 0}}] * 2, "a second")
    changed("template_token_absent", ["post_processor", "special_tokens"], {}, 'a member "<s>"')
    changed("template_id_outside", ["post_processor", "special_tokens", "<s>", "ids"], [4], "below the vocabulary's 4, found 4")
