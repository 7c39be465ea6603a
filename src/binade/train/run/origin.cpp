#include "binade/train/run/origin.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/gpu.h"
#include "binade/data/documents.h"
#include "binade/io/file.h"
#include "binade/train/config/keys.h"

namespace binade::train {
namespace {

constexpr int64_t block_tokens = 4096, max_hashed = int64_t{1} << 24;

void hash_tokens(XXH3_state_t* state, const data::Tokens& tokens) {
  std::array<int64_t, block_tokens> block;
  const int64_t blocks = (tokens.size() + block_tokens - 1) / block_tokens;
  const int64_t hashed = std::min(blocks, max_hashed / block_tokens);
  for (int64_t i = 0; i < hashed; ++i) {
    // Evenly spaced, the last block included: most files change at their end.
    const int64_t index = hashed == blocks ? i : (blocks - 1) / (hashed - 1) * i;
    const int64_t begin = (i + 1 == hashed ? blocks - 1 : index) * block_tokens;
    const auto count = static_cast<size_t>(std::min(block_tokens, tokens.size() - begin));
    tokens.read(begin, {block.data(), count});
    XXH3_128bits_update(state, block.data(), count * sizeof block[0]);
  }
}

// "section.key" -> value, of TOML as to_toml() writes it: one key a line.
std::map<std::string, std::string> settings_of(std::string_view toml) {
  std::map<std::string, std::string> settings;
  std::string section;
  while (!toml.empty()) {
    const size_t end = std::min(toml.find('\n'), toml.size());
    const std::string_view line = toml.substr(0, end);
    toml.remove_prefix(std::min(end + 1, toml.size()));
    if (line.starts_with('[')) {
      section = line;
    } else if (const size_t equals = line.find(" = "); equals != line.npos) {
      // Several [[precision.override]] have the same keys.
      std::string& value = settings[section + std::string(line.substr(0, equals))];
      value += (value.empty() ? "" : ", ") + std::string(line.substr(equals + 3));
    }
  }
  return settings;
}

constexpr std::string_view override_section = "[[precision.override]]";

// Results do not depend on some settings of these sections. `steps` says how long to train on.
bool changes_bits(std::string_view setting) {
  constexpr std::string_view harmless[] = {
      "[train]device",      "[train]threads", "[train]graph",     "[train]steps", "[train]memory",
      "[train]activations", "[model]preset",  "[model]init_from", "[lora]adapter"};
  if (std::ranges::find(harmless, setting) != std::end(harmless)) return false;
  return setting.starts_with("[model]") || setting.starts_with("[precision]") ||
         setting.starts_with(override_section) || setting.starts_with("[train]") ||
         setting.starts_with("[lora]") || setting.starts_with("[qat]") ||
         setting.starts_with("[objective]") || setting == "[data]validation" ||
         setting == "[data]pack" || setting == "[ranks]reduce_dtype" || setting == "[ranks]order";
}

std::string unquoted(const std::string& value) {
  const bool plain = value.size() >= 2 && value.starts_with('"') && value.ends_with('"') &&
                     value.find_first_of("\"\\", 1) == value.size() - 1;
  return plain ? value.substr(1, value.size() - 2) : value;
}

// "[lora]rank" as lora-rank, "[qat]format" as qat.
std::string change_name(std::string_view setting) {
  if (setting.starts_with(override_section)) return "override";
  if (setting == "[qat]format") return "qat";
  std::string name = (setting.starts_with("[lora]")  ? "lora-"
                      : setting.starts_with("[qat]") ? "qat-"
                                                     : "") +
                     std::string(setting.substr(setting.rfind(']') + 1));
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string describe_source(const data::Tokens& train, const data::Tokens& validation) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const data::Tokens* part : {&train, &validation}) {
    hash_tokens(state, *part);
    if (part->documents()) hash_tokens(state, part->documents()->is_target());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{} + {} tokens, XXH3 {:016x}{:016x}", train.size(), validation.size(),
                     hash.high64, hash.low64);
}

}  // namespace

std::string new_run_id() {
  std::random_device draw;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", draw(), draw(), draw(), draw());
}

std::string describe_data(const data::Split& split) {
  const auto& train = split.train.sources();
  const auto& validation = split.validation.sources();
  if (train.empty()) return describe_source(split.train, split.validation);
  std::string text;
  for (size_t i = 0; i < train.size(); ++i) {
    text += fmt::format(
        "{}{} x ({})", i == 0 ? "" : ", ", train[i].weight,
        describe_source(split.train.slice(train[i].begin, train[i].end),
                        split.validation.slice(validation[i].begin, validation[i].end)));
  }
  if (split.train.documents())  // slices have none
    text +=
        fmt::format(", targets ({})", describe_source(split.train.documents()->is_target(),
                                                      split.validation.documents()->is_target()));
  return text;
}

std::string describe_weights(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) files.push_back(folder);  // GGUF
  for (const auto& entry : files.empty() ? std::filesystem::directory_iterator(folder)
                                         : std::filesystem::directory_iterator()) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  size_t bytes = 0;
  for (const std::filesystem::path& path : files) {
    const io::MappedFile file(path, "train");
    bytes += file.bytes().size();
    XXH3_128bits_update(state, file.bytes().data(), file.bytes().size());
    file.check_intact("train");
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{} bytes, XXH3 {:016x}{:016x}", bytes, hash.high64, hash.low64);
}

std::string describe_arithmetic(Device device) {
  if (device.is_cpu()) {
    const int64_t targets = hwy::SupportedTargets();
    return fmt::format("cpu {}, {}", backend::cpu::current_level().name,
                       hwy::TargetName(targets & -targets));  // the lowest bit is the best target
  }
  const std::vector<backend::Gpu>& all = backend::gpus();
  const auto index = static_cast<size_t>(device.index);
  if (index >= all.size()) return {};
  return fmt::format("{} ({}.{})", all[index].name, all[index].major, all[index].minor);
}

std::vector<SettingChange> all_changed_settings(const Config& saved, const Config& current) {
  const auto before = settings_of(to_toml(saved)), after = settings_of(to_toml(current));
  std::vector<SettingChange> changes;
  std::map<std::string, std::string> all = before;
  all.insert(after.begin(), after.end());
  const auto value_in = [](const std::map<std::string, std::string>& settings,
                           const std::string& setting) {
    const auto found = settings.find(setting);
    return found != settings.end() ? found->second : std::string("unset");  // an override
  };
  for (const auto& [setting, value] : all) {
    const std::string from = value_in(before, setting), to = value_in(after, setting);
    if (from != to)
      changes.push_back({change_name(setting), unquoted(from), unquoted(to), changes_bits(setting),
                         setting.starts_with("[model]")});
  }
  return changes;
}

std::vector<std::string> changeable_names() {
  std::vector<std::string> names = {"data", "tokenizer", "arithmetic", "override"};
  for (const Key& key : keys()) {
    const std::string setting = fmt::format("[{}]{}", key.section, key.name);
    if (key.saved && changes_bits(setting) && key.section != "model")
      names.push_back(change_name(setting));
  }
  return names;
}

}  // namespace binade::train
