#include "cli/resumable_run.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/command.h"
#include "cli/process.h"
#include "io/temporary_folder.h"

namespace binade::cli {

namespace fs = std::filesystem;
namespace {

// Of every run, and of the model that adapters are trained on.
constexpr const char* tiny_run =
    "--layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --sample 0 --threads "
    "1 ";

void run_or_throw(const std::string& arguments) {
  const Outcome made = binade(arguments);
  if (made.status != 0) throw std::runtime_error(made.err);
}

// Every file but those with the run's id and paths, with its name.
std::string content_of_model(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;  // there may be no such folder
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename() != "manifest.json" && entry.path().extension() != ".toml")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files)
    all += file.filename().string() + "\n" + testing::content_of(file);
  return all;
}

// The names of all files but those that every start of a run has for TensorBoard, and those of
// older checkpoints: a run that fails saves one of its own.
std::string names_below(const fs::path& folder, const fs::path& last_checkpoint) {
  std::vector<std::string> names;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator();
       ++at) {
    const std::string name = at->path().filename().string();
    if (name == "tb" || (name.starts_with("step-") && at->path() != last_checkpoint))
      at.disable_recursion_pending();
    else
      names.push_back(at->path().lexically_relative(folder).string());
  }
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += name + "\n";
  return all;
}

}  // namespace

const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all = {
      {"fp32", "--precision fp32"},
      {"tf32", "--precision tf32 --model llama"},
      {"bf16", "--precision bf16"},
      {"fp16", "--precision fp16"},
      {"fp8", "--recipe delayed,history=4"},
      {"bf16 masters, recompute", "--precision bf16 --params masters --activations recompute"},
      {"fp8 split, bf16 gradients",
       "--recipe delayed,history=4 --params split --gradients bf16 --accumulate 1"},
      {"fp16 masters, bf16 moments", "--precision fp16 --params masters --moments bf16"},
      {"fp8 masters, accumulate 3", "--recipe delayed,history=4 --params masters --accumulate 3"},
      {"fp8 auto precision", "--recipe delayed,history=4 --auto-precision --layer-stats 2"},
      {"fp8 by a recipe of many fields",
       "--recipe delayed,history=4,head=true,hidden=true,exclude=[\"blocks.0.mlp.down\"] "
       "--model llama --auto-precision --layer-stats 2"},
      {"muon, 8-bit moments", "--precision bf16 --optimizer muon --moments 8bit"},
      {"fp32, SentencePiece", "--precision fp32", "bpe"},
      {"bf16, byte-level BPE", "--precision bf16", "byte-bpe"},
      {.name = "bf16 LoRA, best model",
       .options = "--precision bf16 --lora-rank 4 --keep-best",
       .on_base_model = true},
      {.name = "bf16, two ranks", .options = "--precision bf16", .ranks = 2},
      {.name = "bf16, two ranks, weight shards",
       .options = "--precision bf16 --weight-shards --keep-best",
       .ranks = 2}};
  return all;
}

std::string missing_for(const Arrangement& arrangement) {
  if (arrangement.ranks == 1) return {};
  if (nlohmann::json::parse(binade("info --json").out).at("mpi") == "")
    return "this build has no MPI";
  return run_shell("command -v mpirun").status == 0 ? "" : "there is no mpirun";
}

const Arrangement& arrangement_named(const std::string& name) {
  for (const Arrangement& one : arrangements()) {
    if (one.name == name) return one;
  }
  throw std::invalid_argument(name);
}

std::string arrangement_test_name(const ::testing::TestParamInfo<Arrangement>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

ResumableRun::ResumableRun(const Arrangement& arrangement, RunLength length, const fs::path& folder)
    : folder_(folder), length_(length), options_(arrangement.options), ranks_(arrangement.ranks) {
  if (options_.find("--accumulate") == std::string::npos) options_ += " --accumulate 2";
  // A small text is read in a fraction of the time that Binade's own sources take.
  const fs::path text = folder / "text.txt";
  std::ofstream stream(text);
  for (int i = 0; i < 500; ++i) stream << "the " << i * i << "th line of a text to train on\n";
  stream.close();
  options_ += " --data " + text.string();
  if (arrangement.on_base_model) {
    const std::string base = (folder / "base").string();
    run_or_throw("train --quiet --precision fp32 --steps 1 --data " + quoted(text.string()) +
                 " --out " + quoted(base) + " " + tiny_run);
    options_ += " --init-from " + base;
  }
  if (arrangement.tokenizer_kind.empty()) return;
  const fs::path tokenizer =
      folder / (arrangement.tokenizer_kind == "byte-bpe" ? "tokenizer.json" : "tokenizer.model");
  run_or_throw("tokenize train --data " + quoted(text.string()) + " --vocab 300 --kind " +
               arrangement.tokenizer_kind + " " + quoted(tokenizer.string()));
  options_ += " --tokenizer " + tokenizer.string();
}

std::vector<std::string> ResumableRun::command(const fs::path& out) const {
  std::string line;
  if (ranks_ > 1)
    line = "/usr/bin/env mpirun --allow-run-as-root --oversubscribe --bind-to none -n " +
           std::to_string(ranks_) + " ";
  line += BINADE_EXECUTABLE " train --quiet --resume --out " + out.string();
  // Ended before its configuration was saved, a run needs its options to start anew.
  if (!fs::exists(out / "config.toml")) {
    line +=
        std::string(" ") + tiny_run +
        "--eval-every 5 --scale-growth-interval 4 --keep 2 "
        // Overflows in the first steps of fp16, so that there is a diagnosis, and not in others.
        "--scale-init 4e6 "
        "--steps " +
        std::to_string(length_.steps) + " --checkpoint-every " +
        std::to_string(length_.checkpoint_every) + " " + options_;
  }
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> ResumableRun::command_with_fault(
    const fs::path& out, const std::vector<std::string>& variables) const {
  std::vector<std::string> words = {"/usr/bin/env", "LD_PRELOAD=" BINADE_FAIL_CALLS,
                                    "BINADE_FAULT_ROOT=" + out.string()};
  words.insert(words.end(), variables.begin(), variables.end());
  const std::vector<std::string> rest = command(out);
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

long ResumableRun::count_calls(const fs::path& out) const {
  const fs::path count = folder_ / "count", output = folder_ / "count_output";
  const auto counted = command_with_fault(out, {"BINADE_FAULT_COUNT=" + count.string()});
  EXPECT_EQ(Process(counted, output).wait(), 0) << testing::content_of(output);
  return std::atol(testing::content_of(count).c_str());
}

std::string ResumableRun::outcome(const fs::path& out) const {
  const fs::path last = out / "checkpoints" / ("step-" + std::to_string(length_.steps));
  std::string all = content_of_model(last) + content_of_model(out / "best");
  for (const char* name : {"layers.jsonl", "precision_plan.json", "doctor.txt"})
    all += testing::content_of(out / name);
  std::ifstream log(out / "metrics.jsonl");
  for (std::string line; std::getline(log, line);) {
    auto record = nlohmann::json::parse(line);
    for (const char* name :
         {"tokens_per_second", "joules_per_token", "memory", "seconds", "checksum"})
      record.erase(name);
    all += record.dump() + "\n";
  }
  return all + names_below(out, last);
}

}  // namespace binade::cli
