#!/usr/bin/env python3
"""Writes the bad files beside it and expected.tsv: python3 tests/bad_files/make.py

Each case is a file and the parts that its error message must have. bad_files_test.cpp opens every file through the
library and the command line. The files are small, since they are also seeds of the fuzzers.
"""
import json
import math
import pathlib
import shutil
import struct

HERE = pathlib.Path(__file__).parent
CASES = []  # (path, parts of the message)


def case(path, content, *parts):
    if isinstance(content, str):
        content = content.encode()
    target = HERE / path
    target.parent.mkdir(exist_ok=True)
    assert not target.exists(), path
    target.write_bytes(content)
    CASES.append((path, parts))


# What stands where another kind of value belongs: a name, the value, and how messages describe it.
WRONG = {
    "true": (True, "found true"), "null": (None, "found null"), "text": ("x", 'found "x"'), "number": (7, "found 7"),
    "fraction": (1.5, "found 1.5"), "array": ([], "found an array of 0"), "object": ({}, "found an object of 0"),
    "huge": (1e300, "found 1e+300"),
}


def by_rule(write, good, path, kinds, *parts):
    """A file per kind of wrong value at `path` of a good JSON value; write(name, content, *parts) makes it."""
    label = "_".join(str(step).replace(".", "_").strip("_") for step in path)
    for kind in kinds.split():
        value, found = WRONG[kind]
        content = json.loads(json.dumps(good))
        place = content
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        write(f"{label}_is_{kind}", json.dumps(content), *parts, found)


def replaced(text, old, new):
    assert old in text, old
    return text.replace(old, new, 1)


# ---- safetensors ----

HEADER = (
    '{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'
    '"b":{"dtype":"I64","shape":[2],"data_offsets":[24,40]}}'
)


def tensors(header, data=40, length=None):
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + b"\1" * data


def safetensors():
    def st(name, content, *parts):
        case(f"safetensors/{name}.safetensors", content, *parts)

    def header(name, old, new, *parts):
        st(name, tensors(replaced(HEADER, old, new)), *parts)

    good = tensors(HEADER)
    st("empty", b"", "at least 8 bytes, found 0")
    st("seven_bytes", good[:7], "at least 8 bytes, found 7")
    st("length_alone", good[:8], "at byte 0", "a header of 8 to 0 bytes", "cut short")
    st("length_zero", tensors("{}      ", 0, 0), "at byte 0", "found 0")
    st("length_two", tensors("{}", 0, 2), "at byte 0", "found 2")
    st("length_past_the_end", tensors(HEADER, 0, 1000), "at byte 0", "found 1000", "cut short")
    st("length_over_the_cap", tensors(HEADER, 0, 100_000_001), "at byte 0", "found 100000001")
    st("length_2_63", tensors(HEADER, 0, 2**63), "found 9223372036854775808")
    st("length_all_ones", tensors(HEADER, 0, 2**64 - 1), "found 18446744073709551615", "not a safetensors file")
    st("length_one_short", tensors(HEADER, 40, len(HEADER) - 1), "expected JSON", "unexpected end of input")
    st("a_text", "Once upon a time there was a tensor.", "at byte 0", "not a safetensors file")
    st("a_pickle", b"\x80\x02}q\x01(X\x04\x00\x00\x00test", "at byte 0")
    st("a_zip", b"PK\x03\x04\x14\x08\x08\x08\x08 and more", "at byte 0")
    st("cut_in_the_header", good[:60], "at byte 0", "cut short")
    st("cut_in_the_data", good[:-1], "(b.data_offsets)", "within the 39 bytes of data, found 40", "cut short")
    st("a_byte_more", good + b"x", "the end of the file after the last tensor, found 1 bytes more")
    st("data_without_tensors", tensors("{}      "), "at byte 16", "found 40 bytes more")
    st("array", tensors("[1,2,3,4,5]"), "at byte 8", "expected '{', found \"[\"")
    st("space_first", tensors(" " + HEADER), "at byte 8", "expected '{'")
    st("byte_order_mark", tensors(b"\xef\xbb\xbf" + HEADER.encode()), "at byte 8", "\\xef")
    st("zero_padding", tensors(HEADER + "\0\0\0"), "a zero byte")
    st("two_objects", tensors(HEADER + HEADER), "expected end of input")
    st("not_closed", tensors(HEADER[:-1]), "unexpected end of input")
    st("comma_too_many", tensors(replaced(HEADER, "40]}}", "40]},}")), "expected string literal")
    st("bad_utf8", tensors(HEADER.encode().replace(b'"a"', b'"\xff\xfe"')), "UTF-8")
    st("overlong_utf8", tensors(HEADER.encode().replace(b'"a"', b'"\xc0\xaf"')), "UTF-8")
    header("half_a_surrogate", '"a"', '"\\ud800"', "surrogate")
    header("control_character", '"a"', '"a\n"', "control character")
    header("name_twice", '"b":', '"a":', "names that differ", '"a" twice')
    header("name_twice_escaped", '"b":', '"\\u0061":', '"a" twice')
    header("field_twice", '"dtype":"F32"', '"dtype":"F32","dtype":"F32"', '"dtype" twice')
    header("metadata_key_twice", '"format":"pt"', '"format":"pt","format":"tf"', '"format" twice')
    st("nested_objects", tensors('{"a":' * 2000), "at most 64 levels")
    st("nested_arrays", tensors('{"a":' + "[" * 5000), "at most 64 levels")
    header("not_a_number", "[2,3]", "[NaN,3]", "invalid literal")
    header("number_overflow", "[2,3]", "[1e999,3]", "number overflow")
    header("entry_null", '{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}', "null", "(a)", "an object, found null")
    header("no_dtype", '"dtype":"F32",', "", "(a)", 'a member "dtype", found none')
    header("no_shape", '"shape":[2,3],', "", "(a)", 'a member "shape"')
    header("no_offsets", ',"data_offsets":[0,24]', "", "(a)", 'a member "data_offsets"')
    header("field_more", '"dtype":"F32"', '"dtype":"F32","order":"C"', "no fields but", 'found "order"')
    header("unknown_dtype", "F32", "F31", "(a.dtype)", "one of F64 F32", 'found "F31"')
    header("dtype_a_number", '"F32"', "32", "(a.dtype)", "a string, found 32")
    header("metadata_of_numbers", '"pt"', "1", "(__metadata__.format)", "a string, found 1")
    header("shape_no_array", "[2,3]", "6", "(a.shape)", "an array, found 6")
    header("shape_negative", "[2,3]", "[-2,-3]", "(a.shape[0])", "found -2")
    header("shape_fraction", "[2,3]", "[2.5,3]", "(a.shape[0])", "whole number", "found 2.5")
    header("shape_text", "[2,3]", '["2",3]', "(a.shape[0])", 'found "2"')
    header("shape_huge", "[2,3]", "[9223372036854775808]", "(a.shape[0])", "whole number")
    header("shape_overflow", "[2,3]", "[4294967296,4294967296]", "(a.shape)", "fewer than 2^63 bytes")
    header("shape_overflow_beside_zero", "[2,3]", "[0,4294967296,4294967296]", "fewer than 2^63 bytes")
    header("shape_of_other_size", "[2,3]", "[2,4]", "32 bytes for F32 [2, 4], found 24")
    header("offsets_one", "[0,24]", "[24]", "(a.data_offsets)", "a begin and an end")
    header("offsets_negative", "[0,24]", "[-24,0]", "(a.data_offsets[0])", "found -24")
    header("offsets_out_of_order", "[0,24]", "[24,0]", "a begin before the end, found 24 and 0")
    header("offsets_past_the_end", "[24,40]", "[24,48]", "(b.data_offsets)", "within the 40 bytes of data, found 48")
    header("offsets_overlap", "[24,40]", "[16,32]", '("b")', "an overlap")
    header("offsets_hole", "[24,40]", "[32,48]", "within the 40 bytes")
    st("hole", tensors(replaced(HEADER, "[24,40]", "[32,48]"), 48), '("b")', "a hole")
    def rule(path, kinds, *parts):
        by_rule(lambda name, content, *rest: st(name, tensors(content), *rest), json.loads(HEADER), path, kinds, *parts)

    rule(["a"], "true text number array", "(a)", "an object")
    rule(["a", "dtype"], "true null array object", "(a.dtype)", "a string")
    rule(["a", "shape"], "true null text object", "(a.shape)", "an array")
    rule(["a", "shape", 0], "true null array object huge", "(a.shape[0])", "whole number")
    rule(["a", "data_offsets"], "true null text number object", "(a.data_offsets)", "an array")
    rule(["b", "data_offsets", 1], "true null text array fraction huge", "(b.data_offsets[1])", "whole number")
    rule(["__metadata__"], "true text array", "(__metadata__)", "an object")
    rule(["__metadata__", "format"], "true null array object", "(__metadata__.format)", "a string")
    st("hole_in_front", tensors('{"x":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}}', 16), '("x")', "a hole")


# ---- the index of shards ----


def index():
    def ix(name, content, *parts):
        case(f"index/{name}.json", content, *parts)

    def mapped(file):
        return '{"weight_map":{"a":' + file + "}}"

    ix("empty", "", "unexpected end of input")
    ix("no_json", "weights", "invalid literal")
    ix("array", "[]", "an object, found an array of 0")
    ix("no_map", '{"metadata":{}}', 'a member "weight_map"')
    ix("map_an_array", '{"weight_map":[]}', "(weight_map)", "an object")
    ix("metadata_a_number", '{"metadata":1,"weight_map":{}}', "(metadata)", "an object")
    ix("tensor_twice", '{"weight_map":{"a":"x","a":"x"}}', '"a" twice')
    ix("file_a_number", mapped("1"), "(weight_map.a)", "a string")
    ix("file_empty", mapped('""'), "the name of a file beside the index")
    ix("file_in_a_folder", mapped('"sub/one.safetensors"'), "(weight_map.a)", "a file beside the index")
    ix("file_leading_slash", mapped('"/etc/passwd"'), "a file beside the index", "/etc/passwd")
    ix("file_above", mapped('"../model.safetensors"'), "a file beside the index")
    ix("file_above_escaped", mapped('"..\\u002fmodel.safetensors"'), "a file beside the index")
    ix("file_two_dots", mapped('".."'), "a file beside the index")
    ix("file_backslash", mapped('"..\\\\model.safetensors"'), "a file beside the index")
    ix("file_zero_byte", mapped('"one\\u0000.txt"'), "a file beside the index")
    ix("shard_absent", mapped('"two.safetensors"'), "two.safetensors", "No such file")
    good = {"metadata": {"total_size": 1}, "weight_map": {"a": "one.safetensors"}}
    by_rule(ix, good, ["weight_map"], "true null text number", "(weight_map)", "an object")
    by_rule(ix, good, ["weight_map", "a"], "true null fraction array object", "(weight_map.a)", "a string")
    by_rule(ix, good, ["metadata"], "true text array", "(metadata)", "an object")
    ix("nested", '{"weight_map":' * 100, "at most 64 levels")


# ---- config.json ----

GPT2 = {
    "model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 8, "vocab_size": 256,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 256, "max_position_embeddings": 8,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
}


def config():
    def cf(name, content, *parts):
        case(f"config/{name}.json", content, *parts)

    def changed(name, base, changes, *parts):
        merged = {k: v for k, v in {**base, **changes}.items() if v is not ...}
        cf(name, json.dumps(merged), *parts)

    cf("empty", "", "unexpected end of input")
    cf("array", "[]", "expected an object")
    cf("no_type", "{}", 'a member "model_type"')
    cf("not_json", "model_type: gpt2", "invalid literal")
    cf("layers_twice", json.dumps(GPT2)[:-1] + ',"n_layer":1}', '"n_layer" twice')
    cf("byte_order_mark", b"\xef\xbb\xbf" + json.dumps(GPT2).encode(), "byte order mark")
    cf("zero_byte_behind", json.dumps(GPT2) + "\0", "a zero byte")
    cf("epsilon_overflow", json.dumps(GPT2).replace("1e-05", "1e999"), "number overflow")
    changed("other_type", GPT2, {"model_type": "bert"}, "(model_type)", "gpt2, llama, mistral", '"bert"', "without causal attention")
    changed("type_a_number", GPT2, {"model_type": 7}, "(model_type)", "a string")
    changed("no_layers", GPT2, {"n_layer": ...}, 'a member "n_layer"')
    changed("layers_zero", GPT2, {"n_layer": 0}, "(n_layer)", "from 1 to 4096, found 0")
    changed("layers_negative", GPT2, {"n_layer": -1}, "(n_layer)", "found -1")
    changed("layers_huge", GPT2, {"n_layer": 10**9}, "(n_layer)", "found 1000000000")
    changed("layers_fraction", GPT2, {"n_layer": 1.5}, "(n_layer)", "found 1.5")
    changed("layers_text", GPT2, {"n_layer": "1"}, "(n_layer)", 'found "1"')
    changed("heads_that_do_not_divide", GPT2, {"n_head": 3}, "(n_head)", "a divisor of 16, found 3")
    changed("other_activation", GPT2, {"activation_function": "relu"}, "(activation_function)", '"relu"')
    changed("epsilon_zero", GPT2, {"layer_norm_epsilon": 0}, "(layer_norm_epsilon)", "more than 0")
    changed("context_huge", GPT2, {"n_positions": 10**9}, "(n_positions)")
    changed("cross_attention", GPT2, {"add_cross_attention": True}, "(add_cross_attention)")
    changed("llama_bias", LLAMA, {"attention_bias": 1}, "(attention_bias)", "true or false")
    changed("llama_heads", LLAMA, {"num_attention_heads": 3}, "(num_attention_heads)", "a divisor of 16")
    changed("llama_kv_heads", LLAMA, {"num_key_value_heads": 3}, "(num_key_value_heads)", "a divisor of 4, found 3")
    changed("llama_head_dim", LLAMA, {"head_dim": 5}, "(head_dim)", "an even number", "found 5")
    changed("llama_rope_scaling", LLAMA, {"rope_scaling": {"rope_type": "yarn"}}, "(rope_scaling.rope_type)", '"yarn"')
    changed("llama_rope_negative", LLAMA, {"rope_theta": -1}, "(rope_theta)", "more than 0")
    for name in ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size"):
        by_rule(cf, GPT2, [name], "true text array object huge", f"({name})", "whole number")
    for name in ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size",
                 "max_position_embeddings"):
        by_rule(cf, LLAMA, [name], "true text array huge", f"({name})", "whole number")
    by_rule(cf, GPT2, ["layer_norm_epsilon"], "true text array", "(layer_norm_epsilon)", "a number")
    by_rule(cf, GPT2, ["layer_norm_epsilon"], "huge", "(layer_norm_epsilon)", "at most 1")
    by_rule(cf, LLAMA, ["rms_norm_eps"], "true text object", "(rms_norm_eps)", "a number")
    by_rule(cf, LLAMA, ["rms_norm_eps"], "huge", "(rms_norm_eps)", "at most 1")
    by_rule(cf, LLAMA, ["rope_theta"], "true text", "(rope_theta)", "a number")
    by_rule(cf, LLAMA, ["rope_theta"], "huge", "(rope_theta)", "at most 1e+12")
    changed("llama_activation", LLAMA, {"hidden_act": "gelu"}, "(hidden_act)", "silu")


# ---- manifest.json of a checkpoint ----


def manifest():
    def mf(name, content, *parts):
        case(f"manifest/{name}.json", content, *parts)

    def of(files, version="1", kind='"binade-checkpoint"'):
        return f'{{"format":{kind},"version":{version},"step":1,"files":{files}}}'

    def file(claims, name="config.json"):
        return of(f'{{"{name}":{claims}}}')

    mf("empty", "", "unexpected end of input")
    mf("not_json", "files:", "invalid literal")
    mf("cut_short", of("{}")[:-4], "expected JSON")
    mf("array", "[1]", "an object")
    mf("no_format", "{}", 'a member "format"')
    mf("other_format", of("{}", kind='"zip"'), "(format)", "binade-checkpoint", '"zip"')
    mf("format_a_number", of("{}", kind="3"), "(format)", "a string")
    mf("version_two", of("{}", "2"), "(version)", "found 2")
    mf("version_text", of("{}", '"1"'), "(version)")
    mf("no_files", '{"format":"binade-checkpoint","version":1}', 'a member "files"')
    mf("files_an_array", of("[]"), "(files)", "an object")
    mf("files_empty", of("{}"), 'a member "config.json"')
    mf("file_twice", of('{"config.json":{},"config.json":{}}'), '"config.json" twice')
    mf("file_above", file("{}", "../config.toml"), "a plain file name")
    mf("file_leading_slash", file("{}", "/etc/passwd"), "a plain file name")
    mf("file_hidden", file("{}", ".x"), "a plain file name")
    mf("file_empty_name", file("{}", ""), "a plain file name")
    mf("file_absent", file('{"bytes":1,"xxh3_128":""}', "absent.json"), "absent.json", "No such file")
    mf("bytes_negative", file('{"bytes":-1,"xxh3_128":""}'), "bytes", "found -1")
    mf("bytes_missing", file('{"xxh3_128":""}'), 'a member "bytes"')
    mf("bytes_wrong", file('{"bytes":1,"xxh3_128":""}'), "config.json", "expected 1 bytes", "damaged")
    good = json.loads(file('{"bytes":1,"xxh3_128":""}'))
    by_rule(mf, good, ["format"], "true null array object", "(format)", "a string")
    by_rule(mf, good, ["version"], "true null array object huge", "(version)", "whole number")
    by_rule(mf, good, ["files"], "true null text number", "(files)", "an object")
    by_rule(mf, good, ["files", "config.json"], "true null text number", "(files.config.json)", "an object")
    by_rule(mf, good, ["files", "config.json", "bytes"], "true null text array object huge", "bytes)", "whole number")
    mf("bytes_fraction", file('{"bytes":1.5,"xxh3_128":""}'), "bytes", "found 1.5")


# ---- manifests of reproductions ----


def reproduction():
    def rp(name, content, *parts):
        case(f"reproduction/{name}.json", content, *parts)

    digit = "0123456789abcdef"
    good = {
        "format": "binade-reproduction", "version": 1, "binade": "0.1.0", "data": "3 + 3 tokens", "tokenizer": "",
        "arithmetic": "cpu portable, EMU128", "base": "", "steps": 3, "config": "", "links": [],
    }
    parts = {part: digit for part in ("weights", "moments", "scales", "data")}
    link = {"step": 0, "hash": {**parts, "link": digit * 2}}

    def linked(name, links, *parts):
        rp(name, json.dumps({**good, "links": links}), *parts)

    rp("empty", "", "unexpected end of input")
    rp("not_json", "links:", "invalid literal")
    rp("array", "[1]", "an object")
    rp("no_format", "{}", 'a member "format"')
    rp("other_format", json.dumps({**good, "format": "binade-run"}), '"binade-reproduction"', '"binade-run"')
    rp("version_two", json.dumps({**good, "version": 2}), "(version)", "found 2")
    rp("cut_short", json.dumps(good)[:-9], "expected JSON")
    for name in good:
        if name not in ("format", "version"):
            rp(f"no_{name}", json.dumps({k: v for k, v in good.items() if k != name}), f'a member "{name}"')
    by_rule(rp, good, ["steps"], "true null text array object huge", "(steps)", "whole number")
    by_rule(rp, good, ["links"], "true null text number object", "(links)", "an array")
    by_rule(rp, good, ["config"], "true null number array object", "(config)", "a string")
    linked("link_a_number", [7], "(links[0])", "an object")
    linked("link_without_hash", [{"step": 0}], 'a member "hash"')
    linked("link_without_step", [{"hash": link["hash"]}], 'a member "step"')
    linked("link_at_minus_one", [{**link, "step": -1}], "found -1")
    linked("hash_short", [{"step": 0, "hash": {**link["hash"], "weights": "12"}}], "16 hexadecimal digits")
    linked("hash_capitals", [{"step": 0, "hash": {**link["hash"], "data": digit.upper()}}], "16 hexadecimal digits")
    linked("digest_short", [{"step": 0, "hash": {**link["hash"], "link": digit}}], "32 hexadecimal digits")
    linked("chain_broken", [link], "a chain of hashes", "breaks at step 0")


# ---- precision plans, for a model with blocks.0 ----


def plan():
    def pl(name, content, *parts):
        case(f"plan/{name}.json", content, *parts)

    good = {"layers": [{"module": "blocks.0.mlp.up", "step": 4, "harm": 0.5}]}
    pl("empty", "", "unexpected end of input")
    pl("not_json", "layers:", "invalid literal")
    pl("array", "[]", "an object, found an array of 0")
    pl("no_list", "{}", 'a member "layers"')
    pl("nested", '{"layers":' * 100, "at most 64 levels")
    pl("list_twice", '{"layers":[],"layers":[]}', '"layers" twice')
    pl("no_module", '{"layers":[{"step":1,"harm":0}]}', 'a member "module"')
    pl("no_step", '{"layers":[{"module":"blocks.0","harm":0}]}', 'a member "step"')
    pl("no_harm", '{"layers":[{"module":"blocks.0","step":1}]}', 'a member "harm"')
    pl("module_empty", json.dumps(good).replace("blocks.0.mlp.up", ""), "a module's path", "an empty text")
    pl("module_unknown", json.dumps(good).replace("mlp.up", "mlp.sideways"), "a module of the model", '"blocks.0.mlp.sideways"')
    pl("module_of_a_larger_model", json.dumps(good).replace("blocks.0", "blocks.31"), "a module of the model", "blocks.31")
    pl("module_a_megabyte_long", json.dumps(good).replace("blocks.0", "x" * 5000), "a module of the model", "xxx...")
    pl("step_negative", json.dumps(good).replace("4", "-4"), "step)", "found -4")
    moved = {"layers": [{**good["layers"][0], "recipe": "row, eps = 1e-6"}]}
    pl("recipe_unknown", json.dumps(moved).replace("row,", "rows,"), "delayed, current, row, block, mx", '"rows"')
    pl("recipe_bad_field", json.dumps(moved).replace("eps", "epsilon"), "epsilon", "one of the fields")
    pl("recipe_bad_value", json.dumps(moved).replace("1e-6", "-1"), "eps", "found -1")
    by_rule(pl, moved, ["layers", 0, "recipe"], "true null number array object", "(layers[0].recipe)", "a string")
    by_rule(pl, good, ["layers"], "true null text number object", "(layers)", "an array")
    by_rule(pl, good, ["layers", 0], "true null text number array", "(layers[0])", "an object")
    by_rule(pl, good, ["layers", 0, "module"], "true null number array object", "(layers[0].module)", "a string")
    by_rule(pl, good, ["layers", 0, "step"], "true null text fraction array huge", "(layers[0].step)", "whole number")
    by_rule(pl, good, ["layers", 0, "harm"], "true null text array object", "(layers[0].harm)", "a number")


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


# ---- configurations ----


def toml():
    def tm(name, content, *parts):
        case(f"toml/{name}.toml", content, *parts)

    tm("not_toml", "steps: 3\n", "line 1", "expected TOML")
    tm("section_without_name", "[<model>]\n", "line 1, column 2", "expected TOML", "saw '<'")
    tm("section_of_sections", "[[[model]]]\n", "line 1, column 3", "expected TOML", "saw '['")
    tm("letter_outside_of_strings", "[train]\n\u00e9 = 1\n", "line 2", "TOML in ASCII", "byte 0xc3")
    tm("letter_behind_a_backslash", '[run]\nout = """\\\n\u00e9"""\n', "line 3", "TOML in ASCII", "byte 0xc3")
    tm("not_closed", "[train\nsteps = 1\n", "expected TOML")
    tm("no_value", "[train]\nsteps =\n", "line 2", "expected TOML")
    tm("not_utf8", b"\xff\xfe", "expected TOML")
    tm("key_twice", "[train]\nsteps = 1\nsteps = 2\n", "line 3")
    tm("unknown_section", "[training]\nsteps = 1\n", "line 1", "found [training]")
    tm("unknown_key", "[train]\nstpes = 1\n", "line 2", "did you mean [train] steps?")
    tm("key_in_no_section", "steps = 1\n", "line 1", "the key [train] steps")
    tm("key_in_another_section", "[model]\nsteps = 1\n", "line 2", "the key [train] steps")
    tm("steps_zero", "[train]\nsteps = 0\n", "line 2", "[train] steps", "from 1 to 1000000000, found 0")
    tm("steps_fraction", "[train]\nsteps = 2.5\n", "a whole number", "found 2.5")
    tm("steps_text", '[train]\nsteps = "many"\n', 'found "many"')
    tm("steps_array", "[train]\nsteps = [1, 2]\n", "found an array")
    tm("steps_date", "[train]\nsteps = 1979-05-27\n", "found a date or time")
    tm("steps_table", "[train.steps]\na = 1\n", "found a table")
    tm("steps_past_64_bits", "[train]\nsteps = 99999999999999999999\n", "expected TOML")
    tm("lr_nan", "[train]\nlr = nan\n", "[train] lr", "from 0 to 100, found nan")
    tm("lr_inf", "[train]\nlr = inf\n", "found inf")
    tm("lr_negative", "[train]\nlr = -0.1\n", "found -0.1")
    tm("schedule_unknown", '[train]\nschedule = "cosinus"\n', "one of constant, linear", 'found "cosinus"')
    tm("recompute_a_number", "[train]\nrecompute = 1\n", "true or false, found another value")
    tm("warmup_past_the_end", "[train]\nsteps = 10\nwarmup = 11\n", "[train] warmup", "at most the 10 steps, found 11")
    tm("heads_that_do_not_divide", "[model]\nheads = 3\n", "[model] heads", "a divisor of the width 128, found 3")
    tm("kv_heads_that_do_not_divide", '[model]\nmodel = "llama"\nkv_heads = 3\n', "[model] kv_heads", "divisor of heads, 4")
    tm("kv_heads_of_gpt2", "[model]\nmodel = 'gpt2'\nkv_heads = 2\n", "as many as heads in a gpt2")
    tm("odd_head", '[model]\nmodel = "llama"\nwidth = 12\n', "an even width per head")
    tm("vocab_under_bytes", "[model]\nvocab = 100\n", "at least 256", "found 100")
    tm("tokenizer_absent", '[data]\ntokenizer = "no/such.model"\n', "no/such.model")
    tm("precision_unknown", '[precision]\nprecision = "fp4"\n', "one of fp32, tf32, bf16, fp16, fp8")
    tm("masters_in_fp32", '[precision]\nprecision = "fp32"\nparams = "masters"\n', "masters go with")
    tm("fp8_skips_too_many", "[precision]\nfp8_skip_first = 3\nfp8_skip_last = 2\n", "at most the 4 layers, found 5")
    def rc(name, recipe, *parts):
        tm(f"recipe_{name}", f"[precision]\nrecipe = '{recipe}'\n", *parts)

    tm("recipe_is_a_number", "[precision]\nrecipe = 3\n", "line 2", "[precision] recipe", "the text of a recipe, found 3")
    tm("recipe_is_a_table", "[precision.recipe]\nbase = 'row'\n", "[precision] recipe", "found a table")
    rc("unknown", "late", "delayed, current, row, block, mx", 'found "late"')
    rc("of_nothing", "", "recipe")
    rc("file_absent", "no/such.toml, head = true", "no/such.toml")
    rc("unknown_field", "row, histroy = 4", "histroy", "one of the fields")
    rc("unknown_field_of_a_role", "row, input.formats = 1", "input.formats", "one of the fields")
    rc("not_toml", "row, head = ", "expected TOML")
    rc("second_name", "row, block", "expected TOML")
    rc("history_zero", "delayed, history = 0", "history", "from 1 to 65536, found 0")
    rc("history_of_row", "row, history = 4", "history", "not delayed, found 4")
    rc("margin_huge", "delayed, margin = 9223372036854775807", "margin", "from -64 to 64")
    rc("skip_negative", "row, skip_first = -1", "skip_first", "found -1")
    rc("skips_too_many", "row, skip_first = 3, skip_last = 2", "at most the 4 layers, found 5")
    rc("format_unknown", 'row, format = "e9m9"', "format", 'found "e9m9"')
    rc("format_too_wide", 'row, format = "f32"', "up to 8 bits with a sign and a zero, found f32")
    rc("group_of_one", "row, input.group = [1]", "input.group", "[rows, columns]")
    rc("group_beside_delayed", "delayed, input.group = [1, 0]", "input.group", "beside a delayed source")
    rc("eps_beside_delayed", "delayed, eps = 1e-6", "input.eps", "beside a delayed source")
    rc("eps_nan", "row, eps = nan", "input.eps", "at least 0, found nan")
    rc("source_unknown", 'row, input.source = "late"', "input.source", "current, delayed or constant")
    rc("source_constant", 'row, input.source = "constant"', "input.source", "current or delayed, found constant")
    rc("rule_unknown", 'row, weight.rule = "floor"', "weight.rule", "largest, power_of_two, mx_floor")
    rc("scale_of_mx", 'mx, input.scale = "f32"', "input.scale", "with the rule mx_floor")
    rc("matmul_unknown", 'row, matmuls = ["agrad"]', "matmuls", "forward, dgrad and wgrad")
    rc("operand_missing", "row, gradient = false", "gradient", "which dgrad reads")
    rc("hidden_of_row", "row, hidden = true", "hidden")
    rc("head_in_part", "row, head = true, head_weight = false", "head_weight", "all of the head")
    rc("exclude_a_text", 'row, exclude = "blocks.0"', "exclude", "a list of module paths")
    tm("override_recipe_unknown", "[[precision.override]]\nmodule = 'blocks.0'\nrecipe = 'late'\n", '"late"')
    tm("override_recipe_field", "[[precision.override]]\nmodule = 'blocks.0'\nrecipe = 'row, eps = -1'\n", "eps",
       "found -1")
    tm("validation_all", "[data]\nvalidation = 1.0\n", "[data] validation", "found 1")
    tm("escape_in_a_key", '[train]\n"\\u001b[31mlr" = 1\n', "line 2", "found [train] \\x1b[31mlr")
    tm("escape_in_a_string", '[precision]\nprecision = "\\u001b[2J"\n', "line 2", 'found "\\x1b[2J"')
    tm("escape_in_a_section", '["\\u001b[2J"]\nlr = 1\n', "line 1", "found [\\x1b[2J]")
    tm("escape_as_it_is", "[train]\n\x1b[31mlr = 1\n", "line 2", "expected TOML")
    tm("line_end_in_a_key", '[train]\n"lr\\nbinade: all is well" = 1\n', "line 2", "lr\\x0abinade")
    tm("csi_in_a_key", '[train]\n"\\u009b31mlr" = 1\n', "line 2", "found [train] \\xc2\\x9b31mlr")
    tm("zero_byte_in_a_path", '[run]\nout = "a\\u0000b"\n', "line 2", "[run] out", "a\\x00b", "with a zero byte")
    tm("norm_eps_huge", "[model]\nnorm_eps = 1e300\n", "[model] norm_eps", "from 1e-12 to 1, found 1e+300")
    tm("dotted_key", ".".join(["a"] * 2000) + " = 1\n", "line 1", "keys of at most 16 parts")
    tm("dotted_section", "[train]\n[" + "a." * 2000 + "a]\n", "line 2", "keys of at most 16 parts")
    tm("dotted_inline", "[train]\nlr = {" + "a." * 2000 + "a = 1}\n", "line 2", "keys of at most 16 parts")
    tm("key_long", "[train]\n" + "x" * 3000 + " = 1\n", "line 2", "a known key", "lists all by section")
    tm("section_long", "[" + "x" * 3000 + "]\n", "line 1", "xxx...")
    tm("override_long", "[[precision.override]]\n" + "x" * 3000 + " = 1\n", "line 2", "xxx...")
    tm("value_long", '[train]\nlr = "' + "x" * 3000 + '"\n', "line 2", "xxx...")
    whole = {"model": "layers width heads kv_heads hidden context vocab",
             "precision": "scale_growth_interval",
             "train": "batch accumulate warmup seed threads",
             "run": "eval_every eval_batches log_every checkpoint_every keep sample layer_stats"}
    for section, names in whole.items():
        for key in names.split():
            tm(f"{key}_is_text", f'[{section}]\n{key} = "x"\n', "line 2", f"[{section}] {key}", "whole number", 'found "x"')
            tm(f"{key}_is_huge", f"[{section}]\n{key} = 9223372036854775807\n", f"[{section}] {key}", "whole number")
    # Keys of earlier versions, which recipes have taken the place of.
    for key in "fp8_history fp8_margin fp8_skip_first fp8_skip_last".split():
        tm(f"{key}_is_text", f'[precision]\n{key} = "x"\n', key, "whole number")
        tm(f"{key}_is_huge", f"[precision]\n{key} = 9223372036854775807\n", key, "whole number")
    tm("fp8_scaling_unknown", '[precision]\nfp8_scaling = "late"\n', "fp8_scaling", '"late"')
    tm("fp8_head_is_text", '[precision]\nfp8_head = "yes"\n', "fp8_head", "true or false")
    real = {"model": "norm_eps rope_theta", "precision": "scale_init", "data": "validation",
            "train": "lr weight_decay beta1 beta2 clip"}
    for section, names in real.items():
        for key in names.split():
            tm(f"{key}_is_true", f"[{section}]\n{key} = true\n", "line 2", f"[{section}] {key}", "a number", "found true")
            tm(f"{key}_is_not_a_number", f"[{section}]\n{key} = nan\n", f"[{section}] {key}", "found nan")
    tm("nested_arrays", "[train]\nsteps = " + "[" * 400 + "\n", "expected TOML")


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

    def unigram(name, changes, *parts):
        merged = {k: v for k, v in {**UNIGRAM, **changes}.items() if v is not ...}
        content = {**json.loads(good), "model": merged, "pre_tokenizer": None, "added_tokens": [], "post_processor": None}
        tj(name, json.dumps(content), *parts)

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
    changed("word_piece", ["model"], {"type": "WordPiece", "vocab": {}}, "(model.type)", "BPE or Unigram", '"WordPiece"')
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
    normalizer("normalizer_unknown", {"type": "BertNormalizer"}, "(normalizer.type)", "NFC, NFD", '"BertNormalizer"')
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
    changed("pre_tokenizer_unknown", ["pre_tokenizer"], {"type": "Whitespace"}, "(pre_tokenizer.type)", "Split, ByteLevel")
    changed("metaspace_two", ["pre_tokenizer"], {"type": "Metaspace", "replacement": "__"}, "one character")
    changed("metaspace_scheme", ["pre_tokenizer"],
            {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}, "always, first or never")
    # Decoders and post-processors.
    changed("decoder_unknown", ["decoder"], {"type": "WordPiece"}, "(decoder.type)", "ByteLevel, ByteFallback")
    changed("decoder_bytes_twice", ["decoder"], {"type": "Sequence", "decoders": [TOKENIZER["decoder"]] * 2},
            "ByteLevel before what makes bytes")
    changed("decoder_regex", ["decoder"], {"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}, "no members but String")
    changed("decoder_strip_two", ["decoder"], {"type": "Strip", "content": "ab", "start": 1, "stop": 0}, "one character")
    changed("processor_unknown", ["post_processor"], {"type": "BertProcessing"}, "(post_processor.type)", '"BertProcessing"')
    changed("template_without_text", ["post_processor", "single"], [], "a place for the text")
    changed("template_two_texts", ["post_processor", "single"], [{"Sequence": {"id": "A", "type_id": 0}}] * 2, "a second")
    changed("template_token_absent", ["post_processor", "special_tokens"], {}, 'a member "<s>"')
    changed("template_id_outside", ["post_processor", "special_tokens", "<s>", "ids"], [4], "below the vocabulary's 4, found 4")


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


def chat_template():
    def made(label, source, *parts):
        case(f"chat_template/{label}.jinja", source, *parts)

    made("tag_open", "a\n{% if messages", "line 2", "expected '%}', found the end of the template")
    made("block_open", "{% for m in messages %}\n\n{{ m }}", "line 3", "'{% endfor %}'", "the end of the template")
    made("comment_open", "{# a", "line 1", "'#}' after '{#'")
    made("raw_open", "{% raw %} a", "line 1", "'{% endraw %}'")
    made("text_open", "{{ 'abc }}", "line 1", "the end of a text")
    made("other_end", "{% if 1 %}\n{% endfor %}", "line 2", "'{% endif %}'", 'found "endfor"')
    made("end_alone", "{% endif %}", "expected a tag: if, for", 'found "endif"')
    made("other_tag", "{% include 'secrets.txt' %}", "expected a tag: if, for", 'found "include"')
    made("bracket", "{{ (1 }}", "expected ')', found '}'")
    made("no_expression", "{{ }}", "expected an expression")
    made("no_operand", "{{ 1 + }}", "expected an expression")
    made("other_byte", "{{ 1 ! 2 }}", "a token of an expression", 'found "!"')
    made("bad_escape", "{{ '\\ud800' }}", "an escape of a character")
    made("number_too_large", "{{ 99999999999999999999 }}", "a whole number of 64 bits")
    made("break_alone", "{% break %}", "a loop around it")
    made("recursive", "{% for m in messages recursive %}{% endfor %}", "a loop that is not recursive")
    made("star_arguments", "{{ f(*messages) }}", "arguments that are written out")
    made("deep_brackets", "{{ " + "(" * 200 + "1" + ")" * 200 + " }}", "at most 100 levels")
    made("deep_tags", "{% if 1 %}" * 150, "at most 100 tags in one another")
    made("long_sum", "{{ 1" + " + 1" * 300 + " }}", "at most 200 levels")
    made("unknown_filter", "{{ 1 | shout }}", "a filter that Binade knows", 'found "shout"')
    made("unknown_test", "{{ 1 is shouted }}", "a test that Binade knows", 'found "shouted"')
    made("unknown_method", "{{ 'a'.encode() }}", "a method that Binade knows", "encode()")
    made("undefined_attribute", "\n\n{{ tool.name }}", "line 3", 'undefined "tool"')
    made("adds_number", "{{ 'a' + 1 }}", "values for +", "the integer 1")
    made("changes_list", "{{ messages.append(1) }}", "methods that change nothing")
    made("python", "{{ ''.__class__.__mro__ }}", "the attribute \"__mro__\"")
    made("raises", "{{ raise_exception('Never\x1b[0m') }}", "a conversation that the template takes", "Never")
    made("endless", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "at most 10000000 steps")
    made("long_text", "{{ 'ab' * 99999999 }}", "texts of at most 67108864 bytes")
    made("grows", "{% set n = namespace(t='abcdefgh') %}{% for i in range(99) %}{% set n.t = n.t ~ n.t %}{% endfor %}", "expected")
    made("recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "at most 60 deep")
    made("deep_list", "{% set n = namespace(l=[]) %}{% for i in range(99) %}{% set n.l = [n.l] %}{% endfor %}", "at most 80 levels")
    made("wide_list", "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
         "at most 4000000 values")
    made("range", "{{ range(10000000) }}", "at most 100000 numbers")


def main():
    for path in HERE.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    for make in (safetensors, index, config, manifest, reproduction, plan, tokens, toml, tokenizer, tokenizer_json, gguf,
                 chat_template):
        make()
    lines = ["\t".join((path, *parts)) for path, parts in CASES]
    (HERE / "expected.tsv").write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} bad files")


main()
