"""Weights of models and their configuration."""
import json
import struct

from cases import by_rule, case, replaced

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
