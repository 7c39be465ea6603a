#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "support/paths.h"

// Every file of recipes/: it names its source, is read, and trains.
namespace binade {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(RecipeFiles, AreReadAndRun) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "recipes")) {
    const std::filesystem::path path = entry.path();
    SCOPED_TRACE(path.filename());
    ASSERT_EQ(path.extension(), ".toml");
    EXPECT_TRUE(text_of(path).starts_with("# ")) << "its source comes first";
    amp::Recipe recipe = amp::parse_recipe(
        path.string(), {.read_file = [](const std::string& file) { return text_of(file); }});
    EXPECT_EQ(amp::parse_recipe(amp::to_text(recipe)), recipe);
    names.insert(recipe.name);
    recipe.skip_first = recipe.skip_last = 0;
    nn::Llama model({.layers = 1,
                     .width = 32,
                     .heads = 2,
                     .kv_heads = 1,
                     .hidden = 48,
                     .vocab = 40,
                     .context = 32,
                     .seed = 1});
    const Tensor data = randint(0, 40, {2, 33}, {9, 9});
    const auto loss_by = [&](bool enabled) {
      const amp::Autocast autocast(DType::bf16);
      const amp::QuantizedAutocast quantized(
          amp::RecipeState{.enabled = enabled, .recipe = recipe});
      const Tensor loss = model.loss(slice(data, 1, 0, 32), slice(data, 1, 1, 33));
      loss.backward();
      return loss.item();
    };
    const double plain = loss_by(false), found = loss_by(true);
    EXPECT_NEAR(found, plain, 0.05 * plain);
    EXPECT_EQ(found == plain, !recipe.matmuls.forward);
  }
  EXPECT_GE(names.size(), 14u);
  for (const char* name : {"mxfp8", "mxfp6", "mxfp4", "nvfp4", "nvfp4-plain"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

}  // namespace
}  // namespace binade
