"""What runs write and read: manifests, reproductions, plans, configurations."""
import json

from cases import by_rule, case

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
            kind = "a fraction" if key == "validation" else "a number"
            tm(f"{key}_is_true", f"[{section}]\n{key} = true\n", "line 2", f"[{section}] {key}", kind, "found true")
            tm(f"{key}_is_not_a_number", f"[{section}]\n{key} = nan\n", f"[{section}] {key}", "found nan")
    tm("nested_arrays", "[train]\nsteps = " + "[" * 400 + "\n", "expected TOML")
