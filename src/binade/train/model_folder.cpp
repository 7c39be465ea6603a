#include "binade/train/model_folder.h"

#include "binade/base/error.h"
#include "binade/train/checkpoint.h"

namespace binade::train {

std::filesystem::path model_folder(const std::filesystem::path& given, std::string_view who) {
  std::error_code error;
  if (std::filesystem::exists(given / "config.json", error)) return given;
  const auto checkpoints = list_checkpoints(given / "checkpoints");
  if (!checkpoints.empty()) return checkpoints.back().path;
  fail(who, {.argument = given.string(),
             .expected = "a model's folder, a checkpoint or the folder of a run with one",
             .found = std::filesystem::exists(given, error) ? "none of them" : "nothing there"});
}

}  // namespace binade::train
