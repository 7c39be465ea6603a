#include "binade/train/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "binade/amp/recipe/text.h"
#include "binade/backend/gpu.h"
#include "binade/base/error.h"
#include "binade/train/config/keys.h"
#include "binade/train/config/presets.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Options = std::vector<std::pair<std::string, std::string>>;

Config from_options(const Options& options) { return resolve({{}, options}); }

TEST(Config, DefaultsAreWholeAndSaveToThemselves) {
  const Config config = resolve({});
  EXPECT_EQ(config.precision.matmul, Precision::bf16);
  EXPECT_EQ(config.train.device, backend::gpus().empty() ? Device::cpu() : Device::cuda());
  EXPECT_EQ(config.model.kv_heads, config.model.heads);
  EXPECT_EQ(config.model.hidden, 384);  // 8/3 of the width 128, rounded up to a multiple of 64
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);
}

TEST(Config, OptionsComeBeforeTheFileAndTheFileBeforeDefaults) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put("c.toml", "[model]\nlayers = 2\nwidth = 64\n");
  const Config config =
      resolve({file, {{"layers", "1"}}, {{"layers", "3"}, {"width", "96"}, {"context", "32"}}});
  EXPECT_EQ(config.model.layers, 1);
  EXPECT_EQ(config.model.width, 64);
  EXPECT_EQ(config.model.context, 32);
}

TEST(Config, EveryKeySurvivesSaving) {
  const Config config = from_options({{"data", "a \"quoted\" \\ path \xc3\xa9 \x7f\n"},
                                      {"model", "llama"},
                                      {"layers", "3"},
                                      {"kv-heads", "2"},
                                      {"precision", "fp8"},
                                      {"recipe", "delayed, margin = -3, head = true"},
                                      {"lr", "1.25e-7"},
                                      {"memory", "24 GiB"},
                                      {"activations", "keep = 2, lean"},
                                      {"nondeterministic", "true"},
                                      {"freeze", "embed*,blocks.0"},
                                      {"dropout", "0.25"},
                                      {"lora-dropout", "0.5"},
                                      {"chat", "gemma"},
                                      {"qat-head", "true"},
                                      {"qat-exclude", "q_proj,*.down_proj"},
                                      {"patience", "3"},
                                      {"seed", "9000000000000000"},
                                      {"out", "x"}});
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.precision.recipe[amp::Role::input].delayed().margin, -3);
  EXPECT_TRUE(config.precision.recipe.has_head());
  EXPECT_EQ(config.train.memory.bytes, int64_t{24} << 30);
  EXPECT_EQ(config.train.activations, nn::Activations{.kept = 2});
  EXPECT_TRUE(config.train.nondeterministic);
  EXPECT_EQ(config.train.freeze, (std::vector<std::string>{"embed*", "blocks.0"}));
  EXPECT_EQ(config.train.dropout, 0.25);
  EXPECT_EQ(config.lora.dropout, 0.5);
  EXPECT_TRUE(config.qat.head);
  EXPECT_EQ(config.qat.exclude, (std::vector<std::string>{"q_proj", "*.down_proj"}));
  EXPECT_TRUE(config.run.keep_best);
}

TEST(Config, WeightFormatsSaveToThemselves) {
  EXPECT_EQ(from_options({}).qat.format, nullptr);
  for (const formats::WeightFormat& format : formats::weight_formats()) {
    const Config config = from_options({{"qat", std::string(format.name)}});
    ASSERT_NE(config.qat.format, nullptr);
    EXPECT_EQ(config.qat.format->name, format.name);
    EXPECT_THAT(to_toml(config), HasSubstr("[qat]\nformat = \"" + std::string(format.name) + "\""));
    EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);
  }
}

TEST(Config, RefusesWhatDoesNotGoWithAWeightFormat) {
  const std::pair<Options, const char*> cases[] = {
      {{{"qat", "q9_0"}}, "--qat: expected none, q4_0"},
      {{{"qat", "q4_1"}}, "--qat: expected none, q4_0"},  // only read
      {{{"qat", "nvfp4"}, {"recipe", "row"}}, "[qat] format: expected precision bf16"},
      {{{"qat", "nvfp4"}, {"params", "masters"}}, "[qat] format: expected params 'autocast'"},
      {{{"qat", "nvfp4"}, {"params", "split"}}, "[qat] format: expected params 'autocast'"},
      {{{"qat", "nvfp4"}, {"qat-head", "true"}, {"tied-head", "true"}}, "[qat] head: expected"},
  };
  for (const auto& [options, message] : cases)
    EXPECT_THAT(test::error_of([&options = options] { from_options(options); }), HasSubstr(message))
        << message;
}

TEST(Config, AnObjectiveOnPairsSavesToItself) {
  Config config = from_options({});
  EXPECT_EQ(config.objective.kind, Objective::next_token);
  config.objective = {.kind = Objective::dpo, .beta = 0.3, .label_smoothing = 0.1};
  EXPECT_THAT(to_toml(config),
              HasSubstr("[objective]\nobjective = \"dpo\"\nbeta = 0.3\nlabel_smoothing = 0.1\n"));
  EXPECT_EQ(saved_values(to_toml(config), "saved").objective, config.objective);
}

TEST(Config, RefusesWhatDoesNotGoWithPairs) {
  const std::pair<Options, const char*> cases[] = {
      {{{"objective", "ppo"}}, "--objective: expected one of next-token, dpo"},
      {{{"objective", "dpo"}}, "[objective] objective: expected --init-from with the model"},
      {{{"objective", "dpo"}, {"beta", "0"}}, "--beta: expected"},
      {{{"objective", "dpo"}, {"label-smoothing", "0.5"}}, "--label-smoothing: expected"},
  };
  for (const auto& [options, message] : cases)
    EXPECT_THAT(test::error_of([&options = options] { from_options(options); }), HasSubstr(message))
        << message;
}

TEST(Config, ARecipeImpliesFp8) {
  EXPECT_EQ(from_options({{"recipe", "row"}}).precision.matmul, Precision::quantized);
  EXPECT_EQ(from_options({{"recipe", "row"}}).precision.recipe, amp::recipes::row());
  EXPECT_EQ(resolve_text("[precision]\nrecipe = \"row\"\n", "c.toml").precision.matmul,
            Precision::quantized);
  EXPECT_EQ(from_options({{"recipe", "row"}, {"precision", "bf16"}}).precision.matmul,
            Precision::bf16);
}

TEST(Config, RecipesOfAllKindsSaveToThemselves) {
  for (const char* recipe :
       {"delayed", "mx", "delayed, hidden = true, history = 3, newest = true",
        "delayed, hidden.rule = \"power_of_two\", hidden.source = \"delayed\", hidden.history = 3",
        "row, exclude = [\"blocks.0.mlp\", \"a \\\"quoted\\\" path\"], eps = 1e-9",
        "block, weight.group = [64, 64], gradient.format = \"e4m3\", head = true",
        "name = \"mine\", input.group = [1, 0], weight.rule = \"power_of_two\", "
        "gradient.format = \"e5m2\", fast_accumulation = false, skip_last = 1"}) {
    const Config config = from_options({{"recipe", recipe}});
    EXPECT_EQ(config.precision.recipe, amp::parse_recipe(recipe)) << recipe;
    EXPECT_EQ(resolve_text(to_toml(config), "saved"), config) << to_toml(config);
  }
}

// config.toml has the whole recipe: a run does not need the file again.
TEST(Config, ARecipeMayBeAFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put("mine.toml",
                               "base = \"delayed\"\nname = \"mine\"\nmargin = 1\n"
                               "exclude = [\"blocks.0\"]\n[gradient]\nformat = \"e4m3\"\n");
  const amp::Recipe expected = amp::parse_recipe(
      "delayed, name = \"mine\", margin = 1, exclude = [\"blocks.0\"], format = \"e4m3\"");
  const Config config = from_options({{"recipe", file.string()}});
  EXPECT_EQ(config.precision.recipe, expected);
  EXPECT_EQ(config.precision.matmul, Precision::quantized);
  EXPECT_THAT(to_toml(config), ::testing::Not(HasSubstr("mine.toml")));
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);
  // Fields after the file's name differ from it.
  amp::Recipe with_head = expected;
  with_head.set_head(true);
  EXPECT_EQ(from_options({{"recipe", file.string() + ", head = true"}}).precision.recipe,
            with_head);
  const auto bad = folder.put("bad.toml", "base = \"delayed\"\nmargins = 1\n");
  EXPECT_THAT(test::error_of([&] {
                from_options({{"recipe", bad.string()}});
              }),
              HasSubstr("margins"));
}

TEST(Config, ListsAreArraysInFiles) {
  const Config config =
      resolve_text("[train]\nfreeze = [\"a,b\", \"c\"]\n[lora]\ntargets = []\n", "c.toml");
  EXPECT_EQ(config.train.freeze, (std::vector<std::string>{"a,b", "c"}));
  EXPECT_TRUE(config.lora.targets.empty());
}

TEST(Config, TheCommandLineWinsOverTheFileAndTheFileOverThePreset) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put(
      "c.toml",
      "[model]\npreset = \"gpt2-124m\"\nlayers = 2\nwidth = 96\n[train]\nsteps = 7\nlr = 1\n");
  const Config config = resolve({file, {{"steps", "9"}, {"width", "192"}}});
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_EQ(config.train.lr, 1.0);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.width, 192);
  EXPECT_EQ(config.model.heads, 12);
  EXPECT_EQ(config.model.vocab, 50257);
  EXPECT_EQ(resolve({file, {{"preset", "llama-1.3b"}, {"heads", "8"}}}).model.layers, 2);
  EXPECT_EQ(resolve({file, {{"preset", "llama-1.3b"}, {"heads", "8"}}}).model.family,
            ModelFamily::llama);
}

// Lists are arrays in files and separated by commas on the command line; one may stand alone.
TEST(Config, ListsAreTextsArraysOrAlone) {
  using Texts = std::vector<std::string>;
  const auto allowed = [](const char* value) {
    return resolve_text(std::string("[run]\nallow_changes = ") + value + "\n", "c.toml")
        .run.allow_changes;
  };
  EXPECT_EQ(allowed("true"), Texts{"data"});
  EXPECT_EQ(allowed("false"), Texts{});
  EXPECT_EQ(allowed("\"lr,data\""), (Texts{"lr", "data"}));
  EXPECT_EQ(allowed("[\"lr\", \"clip\"]"), (Texts{"lr", "clip"}));
  EXPECT_EQ(from_options({{"allow-changes", "lr,clip"}}).run.allow_changes, (Texts{"lr", "clip"}));
  const auto frozen = [](const char* value) {
    return resolve_text(std::string("[train]\nfreeze = ") + value + "\n", "c.toml").train.freeze;
  };
  EXPECT_EQ(frozen("[\"a\", \"b\"]"), (Texts{"a", "b"}));
  EXPECT_THROW(frozen("true"), Error);
}

// What no preset sets: a run without these keys is what it always was.
TEST(Config, DefaultsThatNoPresetSetsStay) {
  const std::string toml = to_toml(resolve({}));
  for (const char* line : {"tokenizer = \"bytes\"",
                           "validation = 0.05",
                           "chat = \"auto\"",
                           "pack = false",
                           "tied_head = \"auto\"",
                           "norm_eps = 1e-05",
                           "rope_theta = 10000.0",
                           "params = \"autocast\"",
                           "residual = \"auto\"",
                           "moments = \"f32\"",
                           "gradients = \"f32\"",
                           "recipe = \"delayed\"",
                           "auto_precision = false",
                           "precision_plan = \"\"",
                           "scale_init = 65536.0",
                           "scale_growth_interval = 2000",
                           "accumulate = 1",
                           "optimizer = \"adamw\"",
                           "schedule = \"cosine\"",
                           "weight_decay = 0.1",
                           "beta1 = 0.9",
                           "beta2 = 0.95",
                           "clip = 1.0",
                           "dropout = 0.0",
                           "freeze = []",
                           "graph = \"auto\"",
                           "nondeterministic = false",
                           "seed = 0",
                           "threads = 0",
                           "rank = 0",
                           "alpha = 16.0",
                           "targets = [\"all-linear\"]",
                           "stage = 2",
                           "reduce_dtype = \"f32\"",
                           "order = \"fixed\"",
                           "timeout = 600.0",
                           "eval_every = 200",
                           "eval_batches = 8",
                           "log_every = 50",
                           "checkpoint_every = 400",
                           "keep = 2",
                           "sample = 400",
                           "layer_stats = 100",
                           "keep_best = false",
                           "patience = 0"})
    EXPECT_THAT(toml, HasSubstr("\n" + std::string(line) + "\n"));
}

TEST(Config, DefaultsAreThoseOfTheTinyPreset) {
  Config config;
  apply_preset(config);
  EXPECT_EQ(config, Config());
}

TEST(Config, APresetBringsItsStepsAndLearningRate) {
  const Config gpt2 = from_options({{"preset", "gpt2-124m"}});
  EXPECT_EQ(gpt2.train.lr, 6e-4);
  EXPECT_EQ(gpt2.train.steps, 20000);
  EXPECT_EQ(gpt2.train.warmup, 2000);
  EXPECT_EQ(gpt2.train.batch, 8);
  EXPECT_EQ(from_options({{"preset", "llama-1.3b"}}).train.lr, 2e-4);
  const Config given = from_options({{"preset", "gpt2-124m"}, {"lr", "1e-4"}, {"steps", "40"}});
  EXPECT_EQ(given.train.lr, 1e-4);
  EXPECT_EQ(given.train.warmup, 4);  // a tenth
}

TEST(Config, ACommandsDefaultsYieldToTheFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put("c.toml", "[train]\nsteps = 7\n");
  const Sources::Options defaults = {{"steps", "400"}, {"seed", "5"}};
  EXPECT_EQ(resolve({file, {}, defaults}).train.steps, 7);
  EXPECT_EQ(resolve({file, {}, defaults}).train.seed, 5);
  EXPECT_EQ(resolve({file, {{"steps", "9"}}, defaults}).train.steps, 9);
  // They yield to no preset: a command says how long its runs are.
  EXPECT_EQ(resolve({{}, {{"preset", "gpt2-124m"}}, defaults}).train.steps, 400);
}

TEST(Config, KeysAreNamedOnceAndDescribed) {
  std::set<std::string> names;
  for (const Key& key : keys()) {
    EXPECT_TRUE(names.insert(option_name(key)).second)
        << option_name(key) << " twice: the command line could not tell them apart";
    EXPECT_FALSE(key.help.empty()) << key.name;
    std::visit(
        [](const auto& field) {
          using T = std::decay_t<decltype(field)>;
          if constexpr (std::is_same_v<T, Whole> || std::is_same_v<T, Real>) {
            EXPECT_LT(field.low, field.high);
          } else if constexpr (std::is_same_v<T, Choice>) {
            EXPECT_GE(field.names().size(), 2u);
          }
        },
        key.field);
  }
}

struct Bad {
  const char* toml;
  const char* message;
};

TEST(Config, ActivationsHadOtherKeys) {
  const auto of = [](const std::string& keys) {
    return resolve_text("[train]\n" + keys, "earlier.toml").train.activations;
  };
  EXPECT_EQ(of("recompute = false\nkeep_activations = 0\n"), std::nullopt);
  EXPECT_EQ(of("recompute = true\nkeep_activations = 3\n"), nn::Activations::recompute());
  EXPECT_EQ(of("recompute = false\nkeep_activations = 3\n"), nn::Activations{.kept = 3});
  EXPECT_EQ(of("recompute = true\nactivations = \"keep\"\n"), nn::Activations::keep());
  EXPECT_EQ(of("activations = 2\n"), (nn::Activations{.kept = 2, .lean = 0}));
}

TEST(Config, TheSectionOfRanksHadAnotherName) {
  const Config config =
      resolve_text("[dist]\nstage = 3\nreduce_dtype = \"bf16\"\n", "earlier.toml");
  EXPECT_EQ(config.ranks.stage, 3);
  EXPECT_EQ(config.ranks.reduce_dtype, DType::bf16);
  EXPECT_THAT(to_toml(config), HasSubstr("[ranks]\nstage = 3\n"));
  EXPECT_THAT(to_toml(config), Not(HasSubstr("[dist]")));
}

TEST(Config, RefusesBadFiles) {
  const Bad cases[] = {
      {"[train]\nstpes = 3",
       "bad.toml, line 2: expected a known key, found [train] stpes; did you mean [train] steps?"},
      {"[model]\nlayer = 3", "did you mean [model] layers?"},
      {"[train]\nlearning_rate = 3", "did you mean [train] lr?"},
      {"[train]\nfrobnicate = 3", "found [train] frobnicate; 'binade train --help-all' lists all"},
      {"[train]\nsteps = 1e3", "a whole number from 1 to 1000000000, found 1000.0"},
      {"[precision]\nrecip = \"mx\"", "did you mean [precision] recipe?"},
      {"[train]\nlayers = 3", "expected the key [model] layers, found it as [train] layers"},
      {"layers = 3", "expected the key [model] layers"},
      {"[trian]\nsteps = 3",
       "expected one of [data], [model], [objective], [precision], [train], [lora], [qat], "
       "[ranks], [run], "
       "found "
       "[trian]"},
      {"[train]\nsteps = 0",
       "bad.toml, line 2: [train] steps: expected a whole number from 1 to 1000000000, found 0"},
      {"[train]\nsteps = -5", "found -5"},
      {"[train]\nsteps = 2.0", "expected a whole number from 1 to 1000000000, found 2"},
      {"[train]\nsteps = \"many\"", "found \"many\""},
      {"[train]\nsteps = true", "found true"},
      {"[train]\nsteps = [1, 2]", "found an array"},
      {"[train]\nfreeze = [\"a\", 1]", "expected an array of texts, found an array"},
      {"[train]\nfreeze = 3", "expected an array of texts, found 3"},
      {"[train]\nrank = 3", "expected the key [lora] rank"},
      {"[train]\nsteps = 1979-05-27", "found a date or time"},
      {"[train.steps]\na = 1", "found a table"},
      {"[train]\nsteps = 99999999999", "found 99999999999"},
      {"[train]\nsteps = 99999999999999999999", "expected TOML"},
      {"[train]\nlr = nan", "[train] lr: expected a number from 0 to 100, found nan"},
      {"[train]\nlr = inf", "found inf"},
      {"[train]\nlr = -inf", "found -inf"},
      {"[train]\nlr = -0.1", "found -0.1"},
      {"[train]\nlr = \"0.1\"", "found \"0.1\""},
      {"[train]\nbeta1 = 1.0", "[train] beta1"},
      {"[train]\nclip = -1", "[train] clip"},
      {"[train]\nschedule = \"cosinus\"",
       "expected one of constant, linear, cosine, cooldown, found \"cosinus\""},
      {"[train]\ndevice = \"tpu\"", "expected one of auto, cpu, cuda"},
      {"[train]\nrecompute = 1",
       "[train] recompute: expected true or false, found another value; this key of an earlier "
       "version is now activations"},
      {"[train]\nactivations = \"all\"",
       "expected auto, keep, lean, recompute, a number of blocks"},
      {"[train]\nactivations = true", "found true"},
      {"[train]\nmemory = \"16\"", "such as 16GB or 24GiB, found \"16\"; did you mean 16GB?"},
      {"[train]\nmemory = 16", "found 16; did you mean 16GB?"},
      {"[train]\nwarmup = 3000", "[train] warmup: expected at most the 1600 steps, found 3000"},
      {"[train]\nthreads = 5000", "[train] threads"},
      {"[train]\nseed = -1", "[train] seed"},
      {"[data]\nvalidation = 0", "[data] validation"},
      {"[data]\ntokenizer = \"words\"", "expected bytes, or the path of a SentencePiece model"},
      {"[data]\ndata = 3", "expected a text, found 3"},
      {"[model]\nheads = 3", "[model] heads: expected a divisor of the width 128, found 3"},
      {"[model]\nmodel = \"llama\"\nkv_heads = 3",
       "[model] kv_heads: expected a divisor of heads, 4, found 3"},
      {"[model]\nmodel = \"gpt2\"\nkv_heads = 2", "as many as heads in a gpt2"},
      {"[model]\nmodel = \"llama\"\nwidth = 12", "an even width per head"},
      {"[model]\nvocab = 100", "at least 256 for the tokenizer 'bytes', found 100"},
      {"[model]\npreset = \"huge\"", "expected one of tiny, small, gpt2-124m"},
      {"[precision]\nprecision = \"fp4\"",
       "expected one of fp32, tf32, bf16, fp16, fp8, found \"fp4\""},
      {"[precision]\ngradients = \"bf16\"",
       "expected 'f32' with precision bf16 and params autocast, found 'bf16'"},
      {"[precision]\nparams = \"split\"\ngradients = \"bf16\"\n[train]\naccumulate = 2",
       "expected 'f32' with accumulate above 1, found 'bf16'"},
      {"[precision]\nprecision = \"fp32\"\nparams = \"masters\"",
       "masters go with bf16, fp16 and fp8"},
      {"[precision]\nprecision = \"fp32\"\nresidual = \"bf16\"", "[precision] residual"},
      {"[precision]\nrecipe = \"row, skip_first = 3, skip_last = 2\"",
       "at most the 4 layers, found 5"},
      {"[precision]\nrecipe = \"delayed, history = 0\"", "history"},
      {"[precision]\nrecipe = 3", "[precision] recipe: expected the text of a recipe, found 3"},
      {"[precision]\nrecipe = \"row, histroy = 4\"", "histroy"},
      {"[precision]\nrecipe = \"\"", "recipe"},
      {"[dist]\nstage = 2\n[ranks]\nstage = 2",
       "bad.toml, line 1: expected [ranks] alone, found [dist], its name in earlier versions"},
      {"[ranks]\norder = \"any\"\nreduce_dtype = \"bf16\"",
       "[ranks] order: expected 'fixed' with a 16-bit reduce_dtype, found 'any'"},
      {"[precision]\nscale_init = 0.0", "[precision] scale_init"},
      {"[run]\nresume = true", "--out with the folder of the run"},
      {"[train]\nsteps = 1\nsteps = 2", "line 3"},
      {"[train\nsteps = 1", "expected TOML"},
      {"[train]\nsteps =", "expected TOML"},
      {"\xff\xfe", "expected TOML"},
  };
  for (const Bad& bad : cases) {
    EXPECT_THAT(test::error_of([&bad] { resolve_text(bad.toml, "bad.toml"); }),
                HasSubstr(bad.message))
        << bad.toml;
  }
}

TEST(Config, RefusesBadOptions) {
  const std::pair<Options, const char*> cases[] = {
      {{{"steps", "3x"}}, "--steps: expected a whole number from 1 to 1000000000, found \"3x\""},
      {{{"steps", ""}}, "--steps"},
      {{{"steps", "1e-3"}}, "--steps: expected a whole number from 1 to 1000000000, found 1e-3"},
      {{{"steps", "1e10"}}, "--steps: expected a whole number from 1 to 1000000000, found 1e10"},
      {{{"lr", "1e3"}}, "--lr: expected a number from 0 to 100, found 1e3"},
      {{{"steps", "99999999999999999999"}}, "--steps"},
      {{{"lr", "nan"}}, "--lr: expected a number from 0 to 100, found nan"},
      {{{"lr", "1e999"}}, "--lr"},
      {{{"recipe", "no-such"}}, "or a file, found \"no-such\""},
      {{{"recipe", "row, hidden = true"}}, "hidden"},
      {{{"learning-rate", "1"}},
       "--learning-rate: expected a known option, found none of that name; did you mean --lr?"},
      {{{"resume", "true"}}, "--resume"},
  };
  for (const auto& [options, message] : cases) {
    EXPECT_THAT(test::error_of([&options = options] { from_options(options); }), HasSubstr(message))
        << options[0].second;
  }
}

TEST(Config, UnknownOptionsNameTheNearest) {
  const std::pair<const char*, const char*> cases[] = {
      {"stps", "did you mean --steps?"},
      {"kv-head", "did you mean --kv-heads?"},
      {"chekpoint-every", "did you mean --checkpoint-every?"},
      {"recipes", "did you mean --recipe?"},
      {"batch-size", "did you mean --batch?"}};
  for (const auto& [given, nearest] : cases) {
    EXPECT_THAT(test::error_of([given = given] {
                  from_options({{given, "1"}});
                }),
                HasSubstr(nearest));
  }
  EXPECT_THAT(test::error_of([] {
                from_options({{"frobnicate", "1"}});
              }),
              Not(HasSubstr("did you mean")));
}

TEST(Config, RefusesAFileThatIsNotThere) {
  EXPECT_THAT(test::error_of([] { resolve({"no/such.toml", {}}); }), HasSubstr("no/such.toml"));
}

}  // namespace
}  // namespace binade::train
