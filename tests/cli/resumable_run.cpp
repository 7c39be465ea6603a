#include "cli/resumable_run.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/command.h"
#include "io/temporary_folder.h"

namespace binade::cli {

namespace fs = std::filesystem;

const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all = {
      {"fp32", "--precision fp32"},
      {"tf32", "--precision tf32 --model llama"},
      {"bf16", "--precision bf16"},
      {"fp16", "--precision fp16"},
      {"fp8", "--precision fp8"},
      {"bf16 masters, recompute", "--precision bf16 --params masters --recompute"},
      {"fp16 masters, bf16 moments", "--precision fp16 --params masters --moments bf16"},
      {"fp8 masters, accumulate 3", "--precision fp8 --params masters --accumulate 3"},
      {"fp8 auto precision", "--precision fp8 --auto-precision --layer-stats 2"},
      {"muon, 8-bit moments", "--precision bf16 --optimizer muon --moments 8bit"},
      {"fp32, SentencePiece", "--precision fp32", "bpe"},
      {"bf16, byte-level BPE", "--precision bf16", "byte-bpe"}};
  return all;
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
    : length_(length), options_(arrangement.options) {
  if (options_.find("--accumulate") == std::string::npos) options_ += " --accumulate 2";
  if (arrangement.tokenizer_kind.empty()) return;
  const fs::path text = folder / "text.txt";
  std::ofstream stream(text);
  for (int i = 0; i < 500; ++i) stream << "the " << i * i << "th line of a text to train on\n";
  stream.close();
  const fs::path tokenizer =
      folder / (arrangement.tokenizer_kind == "byte-bpe" ? "tokenizer.json" : "tokenizer.model");
  const Outcome made =
      binade("tokenize train --data " + quoted(text.string()) + " --vocab 300 --kind " +
             arrangement.tokenizer_kind + " " + quoted(tokenizer.string()));
  if (made.status != 0) throw std::runtime_error(made.err);
  options_ += " --tokenizer " + tokenizer.string() + " --data " + text.string();
}

std::vector<std::string> ResumableRun::command(const fs::path& out) const {
  std::vector<std::string> words = {BINADE_EXECUTABLE, "train", "--quiet", "--out", out.string()};
  // Ended before its configuration was saved, a run starts anew.
  if (fs::exists(out / "config.toml")) {
    words.push_back("--resume");
    return words;
  }
  std::istringstream stream(
      "--layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --eval-every 5 "
      "--sample 0 --threads 1 --fp8-history 4 --scale-growth-interval 4 --scale-init 1e9 --keep 2 "
      "--steps " +
      std::to_string(length_.steps) + " --checkpoint-every " +
      std::to_string(length_.checkpoint_every) + " " + options_);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string ResumableRun::outcome(const fs::path& out) const {
  const fs::path last = out / "checkpoints" / ("step-" + std::to_string(length_.steps));
  std::string all = testing::content_of(last / "model.safetensors") +
                    testing::content_of(last / "trainer.safetensors") +
                    testing::content_of(out / "layers.jsonl") +
                    testing::content_of(out / "precision_plan.json");
  std::ifstream log(out / "metrics.jsonl");
  for (std::string line; std::getline(log, line);) {
    auto record = nlohmann::json::parse(line);
    for (const char* name : {"tokens_per_second", "joules_per_token", "memory", "seconds"})
      record.erase(name);
    all += record.dump() + "\n";
  }
  return all;
}

}  // namespace binade::cli
