#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "structure/source_tree.h"

// tests/ mirrors src/binade: every source has a test of its name, or stands here with the test that
// covers it.
namespace binade::structure {
namespace {

struct Covered {
  const char* source;  // under src/binade, without .cpp; ends in * where it is a beginning
  const char* test;    // under tests, without _test.cpp
};

constexpr Covered covered[] = {
    {"amp/call", "amp/autocast"},
    {"data/chat/chat_files", "data/chat/chat_template"},
    {"data/chat/encoder", "data/chat/examples"},
    {"data/chat/jinja/*", "data/chat/jinja/template"},
    {"data/chat/message", "data/chat/answers"},
    {"data/token_text", "train/streams"},
    {"ops/create/options", "from_libtorch/spellings"},
    {"ops/loss/log_probs", "train/log_probs"},
    {"ops/reduce/quantile", "ops/index/count"},
    {"optim/lr_scheduler", "from_libtorch/spellings"},
    {"serve/answer", "serve/service"},
    {"serve/engine", "serve/service"},
    {"serve/reply", "serve/service"},
    {"serve/token_json", "serve/service"},
    {"torch/*", "from_libtorch/spellings"},
    {"formats/code_rows", "formats/codes"},
    {"formats/blocks/k_blocks", "formats/blocks/block_format"},
    {"formats/blocks/legacy_blocks", "formats/blocks/block_format"},
    {"io/gguf/*", "io/gguf/model"},
    {"formats/weights/group_codecs", "formats/weights/weight_format"},
    {"io/linear_targets", "io/lora"},
    {"io/manifest", "train/checkpoint"},
    {"train/export_weights", "cli/gguf"},
    {"io/weight_formats", "train/qat"},
    {"io/base_weights", "train/block_base"},
    {"train/run/ending", "train/run/loop"},
    {"train/run/introduction", "train/run/loop"},
    {"train/run/live_report", "train/report/report"},
    {"train/run/newest_numbers", "train/run/prometheus"},
    {"train/run/recorder", "train/run/loop"},
    {"train/run/restore_files", "cli/damaged_run"},
    {"train/run/resume_check", "cli/interrupted_run"},
    {"train/run/resume_settings", "cli/damaged_run"},
    {"train/run/samples", "train/run/loop"},
    {"train/run/saver", "train/run/loop_resume"},
    {"train/sampled_text", "train/generate"},
    {"train/run/start", "train/run/folder"},
    {"train/run/state", "train/run/loop"},
    {"train/trainer_reference", "train/preferences"},
    {"train/trainer_state", "train/checkpoint"},
    {"train/report/preference_charts", "train/preferences"},
    {"train/watch/alarm", "train/watch/run_watch"},
    {"train/watch/first_loss", "train/watch/run_watch"},
    {"train/watch/gradient_size", "train/watch/run_watch"},
    {"train/watch/loss_course", "train/watch/run_watch"},
    {"amp/policy", "amp/autocast"},
    {"amp/trace", "amp/autocast"},
    {"autograd/cast_observer", "amp/autocast"},
    {"autograd/history", "ops/in_place"},
    {"backend/attention", "backend/cuda/attention/attention"},
    {"backend/backend", "ops/table"},
    {"backend/gpu", "backend/graph"},
    {"backend/matmul", "ops/quantized/matmul"},
    {"backend/meta", "train/memory/forecast"},
    {"backend/transfer", "backend/graph"},
    {"backend/audit/*", "backend/audit/auditor"},
    {"backend/cpu/attention/*", "backend/cpu/attention/attention"},
    {"backend/cpu/quantize/block_rows", "backend/block_rows"},
    {"backend/cpu/quantize/group_rows", "backend/cpu/quantize/quantize"},
    {"backend/cpu/conv/im2col", "backend/cpu/conv/conv"},
    {"backend/cpu/elementwise/activation_rows", "backend/cpu/elementwise/activation"},
    {"backend/cpu/elementwise/binary", "backend/cpu/elementwise/elementwise"},
    {"backend/cpu/elementwise/copy", "backend/cpu/elementwise/elementwise"},
    {"backend/cpu/elementwise/f64", "backend/cpu/elementwise/elementwise"},
    {"backend/cpu/elementwise/gradient", "backend/cpu/elementwise/elementwise"},
    {"backend/cpu/elementwise/i64", "backend/cpu/elementwise/elementwise"},
    {"backend/cpu/gemm/convert", "backend/cpu/gemm/gemm"},
    {"backend/cpu/gemm/epilogue", "backend/cpu/gemm/gemm"},
    {"backend/cpu/gemm/f64", "backend/cpu/gemm/gemm"},
    {"backend/cpu/gemm/isa", "backend/cpu/gemm/gemm"},
    {"backend/cpu/gemm/kernel_*", "backend/cpu/gemm/gemm"},
    {"backend/cpu/gemm/pack", "backend/cpu/gemm/gemm"},
    {"backend/cpu/gemm/peak_flops", "train/memory/forecast"},
    {"backend/cpu/gemm/tile*", "backend/cpu/gemm/blocked"},
    {"backend/cpu/gemm/vector_*", "backend/cpu/gemm/vector"},
    {"backend/cpu/index/index_add", "backend/cpu/index/index"},
    {"backend/cpu/index/sort", "ops/index/sort"},
    {"backend/cpu/norm/norm_rows", "backend/cpu/norm/norm"},
    {"backend/cpu/norm/softmax_rows", "backend/cpu/norm/softmax"},
    {"backend/cpu/quantize/coded", "amp/recipe/coded_groups"},
    {"backend/cpu/reduce/argmax_cumsum", "ops/table"},
    {"backend/cpu/reduce/*", "backend/cpu/reduce/reduce"},
    {"backend/cpu/rows/*", "backend/cpu/elementwise/elementwise"},
    {"backend/cpu/step/ctc", "ops/table"},
    {"backend/cpu/step/optimizer_rows", "backend/cpu/step/optimizer"},
    {"base/process", "cli/launch"},
    {"bench/*", "cli/bench"},
    {"c/*", "c/c"},
    {"cli/*", "cli/commands"},
    {"data/builtin", "data/corpus"},
    {"data/sentencepiece_model", "data/sentencepiece"},
    {"data/tokenizer_json/regex_translate", "data/tokenizer_json/regex"},
    {"data/tokenizer_json/*", "data/tokenizer_json/golden"},
    {"ranks/agreement", "ranks/communicator"},
    {"ranks/amax_exchange", "cli/ranks"},
    {"ranks/host_facts", "ranks/sharded"},
    {"ranks/mpi", "ranks/communicator"},
    {"ranks/tcp/reception", "ranks/tcp/rendezvous"},
    {"ranks/tcp/socket", "ranks/tcp/rendezvous"},
    {"ranks/tcp/tcp", "ranks/communicator"},
    {"formats/tensor_core/multiply", "formats/tensor_core/tensor_core"},
    {"io/families/*", "io/families"},
    {"io/huggingface_parts", "io/huggingface"},
    {"lab/element_labels", "lab/fault"},
    {"lab/examine", "lab/diagnosis"},
    {"lab/experiments/*", "lab/experiments"},
    {"lab/precision_comparison_report", "lab/precision_comparison"},
    {"lab/replay/capture", "lab/replay/step_view"},
    {"lab/replay/recorded_run", "lab/replay/step_view"},
    {"lab/replay/replayer", "lab/replay/step_view"},
    {"lab/replay/run_diff_causes", "lab/replay/run_diff"},
    {"lab/replay/run_diff_text", "lab/replay/run_diff"},
    {"lab/replay/step_view_text", "lab/replay/step_view"},
    {"lab/step_replay", "lab/doctor"},
    {"lab/sweep_report", "lab/sweep"},
    {"lab/torch_diff/*", "lab/torch_diff/torch_diff"},
    {"lab/underflow", "lab/diagnosis"},
    {"nn/linear", "nn/layers"},
    {"nn/norm", "nn/layers"},
    {"nn/norm_linear", "nn/fp8_blocks"},
    {"nn/pool", "nn/activation"},
    {"nn/sequential", "nn/layers"},
    {"ops/libtorch_names", "ops/methods"},
    {"ops/quantized/mlp_matmuls", "ops/quantized/fused"},
    {"optim/adafactor", "optim/every_optimizer"},
    {"optim/adagrad", "optim/every_optimizer"},
    {"optim/adam", "optim/optimizer"},
    {"optim/captured_hyper", "optim/adam_gpu"},
    {"optim/lion", "optim/every_optimizer"},
    {"optim/master_weight", "optim/split_masters"},
    {"optim/muon", "optim/every_optimizer"},
    {"optim/nadam", "optim/every_optimizer"},
    {"optim/newton_schulz", "optim/golden"},
    {"optim/one_cycle", "optim/golden"},
    {"optim/option_visitor", "optim/catalog"},
    {"optim/plateau", "optim/golden"},
    {"optim/rmsprop", "optim/every_optimizer"},
    {"optim/sgd", "optim/optimizer"},
    {"optim/slot", "optim/parts"},
    {"optim/step_counts", "optim/optimizer"},
    {"train/config/earlier_activations", "train/config/config"},
    {"train/config/numbers", "train/config/config"},
    {"train/config/key_texts", "train/config/config"},
    {"train/config/keys", "train/config/config"},
    {"train/config/presets", "train/config/config"},
    {"train/config/read_toml", "train/config/config"},
    {"train/config/setting", "train/config/config"},
    {"train/hash/trainer_hash", "train/hash/state_hash"},
    {"train/run/follow", "cli/ranks"},
    {"train/graph_inputs", "train/gpu"},
    {"train/micro_batch", "train/trainer"},
    {"train/report/chart_script", "train/report/chart"},
    {"train/report/inspect_text", "train/report/inspect"},
    {"train/report/svg", "train/report/chart"},
};

// "src/binade/ops/norm/norm.cpp" -> "ops/norm/norm".
std::string stem_path(const std::string& file) {
  const std::string below = file.substr(std::string("src/binade/").size());
  return below.substr(0, below.rfind('.'));
}

std::string test_file(const std::string& path) { return "tests/" + path + "_test.cpp"; }

bool fits(const std::string& path, std::string pattern) {
  if (!pattern.ends_with('*')) return path == pattern;
  pattern.pop_back();
  return path.starts_with(pattern);
}

// Sources of CUDA follow their family's table, which the walk over the ops runs on a GPU, and so do
// files that record ops.
bool is_walked(const std::string& file) {
  return file.starts_with("src/binade/backend/cuda/") ||
         (file.starts_with("src/binade/ops/") &&
          read_source(file).find("Op::") != std::string::npos);
}

std::vector<std::string> sources_without_own_test() {
  std::vector<std::string> result;
  for (const std::string& file : files_under("src/binade", {".cpp"})) {
    if (!is_walked(file) && !source_exists(test_file(stem_path(file)))) result.push_back(file);
  }
  return result;
}

TEST(Mirror, EverySourceHasItsTestOrIsListed) {
  ASSERT_TRUE(source_exists("tests/ops/table_test.cpp"));
  for (const std::string& file : sources_without_own_test()) {
    const std::string path = stem_path(file);
    EXPECT_TRUE(std::any_of(std::begin(covered), std::end(covered),
                            [&](const Covered& one) { return fits(path, one.source); }))
        << file << " has no " << test_file(path) << ": write it, or name the test that covers it";
  }
}

TEST(Mirror, TheListIsShortAndTrue) {
  const std::vector<std::string> without = sources_without_own_test();
  for (const Covered& one : covered) {
    EXPECT_TRUE(
        std::any_of(without.begin(), without.end(),
                    [&](const std::string& file) { return fits(stem_path(file), one.source); }))
        << one.source << " is listed, but nothing needs it";
    EXPECT_TRUE(source_exists(test_file(one.test))) << test_file(one.test) << " is not there";
  }
}

}  // namespace
}  // namespace binade::structure
