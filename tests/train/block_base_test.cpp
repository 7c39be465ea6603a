// Adapters over weights that stay in blocks of few bits (QLoRA), as a run has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "binade/io/base_weights.h"
#include "binade/io/gguf/save.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/evaluate.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* all_formats[] = {"q4_0", "q4_k", "q8_0", "nf4", "fp8-block"};

// A Llama with rows of whole blocks, and q, k and v of different sizes.
class BlockBase : public ::testing::Test {
 protected:
  BlockBase() { io::save_pretrained(nn::LanguageModel(model_config(sizes("fp32"))), base()); }

  fs::path base() const { return folder_ / "base"; }

  static Config sizes(const std::string& precision) {
    Config config = small_config(precision);
    config.model.family = ModelFamily::llama;
    config.model.width = 256;
    config.model.hidden = 512;
    config.model.heads = 4;
    config.model.kv_heads = 2;
    return config;
  }

  Config config(const std::string& format, const std::string& precision = "bf16") const {
    Config config = sizes(precision);
    config.model.init_from = base().string();
    config.lora.rank = 2;
    config.lora.dropout = 0.25;
    config.train.accumulate = 2;
    config.train.activations = nn::Activations::recompute();
    config.precision.params = uses_autocast(config.precision.matmul) && precision != "fp16"
                                  ? ParameterStorage::masters
                                  : ParameterStorage::autocast;
    if (format == "file") {
      config.lora.base.kind = BaseFormat::Kind::file;
    } else if (!format.empty()) {
      config.lora.base = {BaseFormat::Kind::blocks, formats::find_base_format(format)};
    }
    return config;
  }

  // The base with its linear layers rounded to a format, in f32.
  fs::path rounded_base(const std::string& format) const {
    const fs::path to = folder_ / ("rounded-" + format);
    const auto model = io::load_pretrained(base());
    io::round_base(*model, *formats::find_base_format(format));
    io::save_pretrained(*model, to);
    return to;
  }

  // The base as a GGUF file.
  fs::path gguf(const char* type) const {
    const fs::path to = folder_ / (std::string(type) + ".gguf");
    io::gguf::save(*io::load_pretrained(base()), to,
                   {.type = io::gguf::find_tensor_type(type), .add_tokenizer = {}});
    return to;
  }

  testing::TemporaryFolder folder_;
};

struct RunBits {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> adapters;
  bool operator==(const RunBits&) const = default;
};

std::map<std::string, std::vector<double>> values_of(const StateDict& state) {
  std::map<std::string, std::vector<double>> result;
  for (const auto& [name, tensor] : state) result[name] = to_vector(tensor);
  return result;
}

RunBits continued(Trainer& trainer, int steps) {
  RunBits bits;
  for (int i = 0; i < steps; ++i) bits.losses.push_back(trainer.step(small_tokens()).loss);
  bits.losses.push_back(trainer.evaluate(small_tokens()).loss);
  bits.adapters = values_of(io::adapter_tensors(trainer.model()));
  return bits;
}

RunBits bits_of_run(const Config& config, int steps = 3) {
  Trainer trainer(config);
  trainer.init_from(config.model.init_from);
  return continued(trainer, steps);
}

TEST_F(BlockBase, HasTheBitsOfADequantizedBase) {
  const RunBits unrounded = bits_of_run(config(""));
  for (const char* format : all_formats) {
    for (const char* precision : {"bf16", "fp16", "fp32"}) {
      if (std::string_view(precision) != "bf16" && std::string_view(format) != "nf4") continue;
      SCOPED_TRACE(std::string(format) + " " + precision);
      Config plain = config("", precision);
      plain.model.init_from = rounded_base(format).string();
      const RunBits expected = bits_of_run(plain), found = bits_of_run(config(format, precision));
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_TRUE(found.adapters == expected.adapters);
      EXPECT_NE(found.losses, unrounded.losses);
    }
  }
}

// GPT-2: biases, weights that files have as [in, out], and layers with an activation and no
// adapter.
TEST_F(BlockBase, HasTheSameBitsWithBiasesAndActivations) {
  Config blocks = config("q4_k");
  blocks.model.family = ModelFamily::gpt2;
  blocks.model.kv_heads = blocks.model.heads;
  blocks.lora.targets = {"c_attn"};
  Config plain = blocks;
  plain.lora.base = {};
  auto model = nn::LanguageModel(model_config(blocks));
  for (auto& [name, parameter] : model.named_parameters()) {
    if (name.ends_with(".bias")) parameter.detach().copy_(randn(parameter.shape(), {5, 6}) * 0.1);
  }
  io::save_pretrained(model, folder_ / "gpt2");
  io::round_base(model, *blocks.lora.base.format);
  io::save_pretrained(model, folder_ / "rounded");
  blocks.model.init_from = (folder_ / "gpt2").string();
  plain.model.init_from = (folder_ / "rounded").string();
  EXPECT_TRUE(bits_of_run(blocks) == bits_of_run(plain));
}

TEST_F(BlockBase, HasTheSameBitsKeptOrRecomputed) {
  Config kept = config("q4_k");
  kept.train.activations = nn::Activations::keep();
  EXPECT_TRUE(bits_of_run(kept) == bits_of_run(config("q4_k")));
}

TEST_F(BlockBase, ResumesBitForBitWithoutTheBaseInItsCheckpoints) {
  const Config full = config("nf4");
  Trainer straight(full), resumed(full);
  straight.init_from(full.model.init_from);
  for (int i = 0; i < 2; ++i) straight.step(small_tokens());
  const fs::path saved = save_checkpoint(straight, folder_ / "checkpoints", 1);
  EXPECT_FALSE(fs::exists(saved / "model.safetensors"));
  EXPECT_LT(fs::file_size(saved / trainer_state_file), 600'000U);  // moments of the adapters
  resumed.init_from(full.model.init_from);
  load_checkpoint(resumed, saved);
  EXPECT_TRUE(continued(resumed, 2) == continued(straight, 2));
  EXPECT_EQ(resumed.hash(), straight.hash());
}

// The hash tells bases apart that differ in their blocks alone.
TEST_F(BlockBase, HashesTheBlocks) {
  const auto hash_over = [&](const fs::path& base) {
    Config config = this->config("q8_0");
    config.model.init_from = base.string();
    Trainer trainer(config);
    trainer.init_from(base);
    return trainer.hash().weights;
  };
  const auto model = io::load_pretrained(base());
  for (auto& [name, parameter] : model->named_parameters()) {
    if (name == "blocks.1.mlp.down.weight") parameter.detach()[3][5] = 0.5;
  }
  io::save_pretrained(*model, folder_ / "other");
  EXPECT_EQ(hash_over(base()), hash_over(base()));
  EXPECT_NE(hash_over(base()), hash_over(folder_ / "other"));
}

// Llama's rows of q and k have another order in the file.
TEST_F(BlockBase, KeepsTheBlocksOfAGgufFile) {
  for (const char* type : {"q4_0", "q4_k", "mxfp4"}) {
    SCOPED_TRACE(type);
    Config blocks = config("file"), plain = config("");
    blocks.model.init_from = gguf(type).string();
    io::save_pretrained(*io::load_pretrained(blocks.model.init_from), folder_ / "plain");
    plain.model.init_from = (folder_ / "plain").string();
    EXPECT_TRUE(bits_of_run(blocks) == bits_of_run(plain));
  }
}

std::vector<uint8_t> bytes_of(const Tensor& blocks) {
  const auto* data = static_cast<const uint8_t*>(blocks.raw_data());
  return {data, data + blocks.bytes()};
}

TEST_F(BlockBase, CopiesTheFilesBytes) {
  Config config = this->config("file");
  config.model.init_from = gguf("q6_k").string();
  Trainer trainer(config);
  trainer.init_from(config.model.init_from);
  const io::gguf::File file(config.model.init_from);
  size_t compared = 0;
  for (const auto& [path, module] : trainer.model().named_modules()) {
    const auto* linear = dynamic_cast<const nn::Linear*>(module);
    if (linear == nullptr) continue;
    ASSERT_NE(linear->block_weight(), nullptr) << path;
    EXPECT_FALSE(linear->weight.defined());
    const std::vector<BlockPart>& parts = linear->block_weight()->parts;
    if (path != "blocks.1.attention.qkv" && path != "blocks.0.mlp.down") continue;
    const bool is_qkv = parts.size() == 3;
    const auto bytes =
        file.bytes(*file.find(is_qkv ? "blk.1.attn_v.weight" : "blk.0.ffn_down.weight"));
    const std::vector<uint8_t> found = bytes_of(parts.back().blocks);
    ASSERT_EQ(found.size(), bytes.size());
    EXPECT_EQ(std::memcmp(found.data(), bytes.data(), bytes.size()), 0) << path;
    ++compared;
  }
  EXPECT_EQ(compared, 2U);
}

// No block of 16-bit files is kept: their layers are values.
TEST_F(BlockBase, AFileWithoutBlocksIsPlain) {
  Config blocks = config("file"), plain = config("");
  blocks.model.init_from = plain.model.init_from = gguf("bf16").string();
  EXPECT_TRUE(bits_of_run(blocks) == bits_of_run(plain));
}

// A named format codes a GGUF file's values, in the order of the model's rows.
TEST_F(BlockBase, CodesAGgufFileInAnotherFormat) {
  Config blocks = config("fp8-block"), plain = config("");
  blocks.model.init_from = gguf("f32").string();
  plain.model.init_from = rounded_base("fp8-block").string();
  EXPECT_TRUE(bits_of_run(blocks) == bits_of_run(plain));
}

// The merged model has the loss that the run had, not that of the unrounded base.
TEST_F(BlockBase, IsMergedIntoTheRoundedBase) {
  const Config config = this->config("nf4", "fp32");
  Trainer trainer(config);
  trainer.init_from(config.model.init_from);
  for (int i = 0; i < 3; ++i) trainer.step(small_tokens());
  const double expected = trainer.evaluate(small_tokens()).loss;
  const fs::path saved = save_checkpoint(trainer, folder_ / "checkpoints", 1);
  EXPECT_EQ(io::base_format_of(saved), &formats::nf4);
  const auto loss_of = [&](const fs::path& checkpoint) {
    const auto model = io::load_pretrained(checkpoint);
    model->eval();
    const data::Batch batch =
        data::validation_batch(small_tokens(), {config.train.batch, config.model.context}, 0, 1);
    return model->loss(batch.tokens, batch.targets).item();
  };
  EXPECT_NEAR(loss_of(saved), expected, 2e-6);
  StateDict tensors = io::load_safetensors(saved / "adapter_model.safetensors");
  io::save_safetensors(saved / "adapter_model.safetensors", tensors);
  EXPECT_EQ(io::base_format_of(saved), nullptr);
  EXPECT_GT(std::abs(loss_of(saved) - expected), 1e-4);
  io::save_safetensors(saved / "adapter_model.safetensors", tensors, {{"base_format", "q9"}});
  EXPECT_THAT(test::error_of([&] { loss_of(saved); }),
              HasSubstr("(base_format): expected q4_0, q4_k, q8_0, nf4, fp8-block, found \"q9\""));
}

// Matrices take a third of their bytes in bf16; nothing of their full size is allocated.
TEST_F(BlockBase, BooksBlocksAndNoCopy) {
  Config config = this->config("nf4"), plain = this->config("");
  int64_t elements = 0;
  for (const auto& [name, parameter] :
       nn::LanguageModel(model_config(config), {Device::meta(), DType::f32}).named_parameters()) {
    if (name.starts_with("blocks.") && parameter.rank() == 2) elements += parameter.numel();
  }
  ASSERT_GT(elements, 1'000'000);
  const auto parameters = [](const memory::Statistics& at) {
    return at.at_peak[static_cast<size_t>(memory::Category::parameters)];
  };
  const memory::Statistics blocks = forecast_memory(config), values = forecast_memory(plain);
  EXPECT_EQ(parameters(values) - parameters(blocks), 2 * elements - elements / 64 * 36);
  EXPECT_LT(blocks.peak, values.peak);

  memory::reset_peak();
  const int64_t before = memory::allocated();
  Trainer trainer(config);
  EXPECT_LT(memory::peak() - before, 2 * elements);  // bytes of the plain matrices alone
  EXPECT_EQ(
      trainer.model().parameter_count() - trained_parameters(trainer.model()),
      nn::LanguageModel(model_config(config), {Device::meta(), DType::f32}).parameter_count());
}

TEST_F(BlockBase, RefusesWhatItCannotKeep) {
  const auto refusal = [&](std::vector<std::pair<std::string, std::string>> options,
                           const std::string& precision = "bf16") {
    options.insert(options.end(),
                   {{"init-from", base().string()}, {"precision", precision}, {"device", "cpu"}});
    return test::error_of([&] { resolve({.file = {}, .options = std::move(options)}); });
  };
  EXPECT_THAT(refusal({{"lora-base", "nf4"}}), HasSubstr("--lora-rank beside it"));
  EXPECT_THAT(refusal({{"lora-base", "nf4"}, {"lora-rank", "4"}}, "fp8"),
              HasSubstr("precision bf16, fp16, tf32 or fp32 beside it"));
  EXPECT_THAT(refusal({{"lora-base", "file"}, {"lora-rank", "4"}}),
              HasSubstr("--init-from with a GGUF file"));
  EXPECT_THAT(refusal({{"lora-base", "nf4"}, {"lora-rank", "4"}, {"qat", "q4_0"}}),
              HasSubstr("--lora-base none beside it"));
  EXPECT_THAT(refusal({{"lora-base", "nf5"}, {"lora-rank", "4"}}),
              HasSubstr("auto, none, file, q4_0, q4_k, q8_0, nf4 or fp8-block"));
  EXPECT_EQ(refusal({{"lora-base", "nf4"}, {"lora-rank", "4"}}), "");

  Config narrow = config("nf4");
  narrow.model.hidden = 352;
  EXPECT_THAT(test::error_of([&] { make_model(narrow, placement(narrow)); }),
              HasSubstr("layers.0.mlp.down_proj: expected rows of a multiple of 64 elements for "
                        "nf4, found 352"));
}

TEST_F(BlockBase, AGgufFilesBlocksAreTheDefault) {
  const auto base_of = [&](const fs::path& from,
                           std::vector<std::pair<std::string, std::string>> options) {
    options.insert(options.end(), {{"init-from", from.string()}, {"device", "cpu"}});
    return resolve({.file = {}, .options = std::move(options)}).lora.base;
  };
  using Kind = BaseFormat::Kind;
  const fs::path file = gguf("q8_0");
  EXPECT_EQ(base_of(file, {{"lora-rank", "4"}}).kind, Kind::file);
  EXPECT_EQ(base_of(file, {{"lora-rank", "4"}, {"lora-base", "none"}}).kind, Kind::none);
  EXPECT_EQ(base_of(file, {{"lora-rank", "4"}, {"qat", "q8_0"}}).kind, Kind::none);
  EXPECT_EQ(base_of(file, {}).kind, Kind::none);
  EXPECT_EQ(base_of(base(), {{"lora-rank", "4"}}).kind, Kind::none);
}

}  // namespace
}  // namespace binade::train
