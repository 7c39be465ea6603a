#include "binade/lab/torch_diff/recording.h"

#include <nlohmann/json.hpp>

#include "binade/base/error.h"
#include "fuzz/memory_file.h"
#include "fuzz/mutate_json.h"

namespace {

constexpr size_t max_data = size_t{1} << 16;

// A recording from {"metadata": {...}, "tensors": {"tokens": ["I64", [1, 2]], ...}}: each member of
// the metadata that is no text becomes the text of its JSON, and all data are zeros. Empty: it is
// no such JSON.
std::string recording_of(const nlohmann::json& parts) {
  nlohmann::json header = nlohmann::json::object();
  if (!parts.is_object() || !parts.contains("metadata") || !parts.contains("tensors")) return "";
  if (!parts["metadata"].is_object() || !parts["tensors"].is_object()) return "";
  const auto dump = [](const nlohmann::json& x) {
    return x.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  for (const auto& [key, value] : parts["metadata"].items())
    header["__metadata__"][key] = value.is_string() ? value : nlohmann::json(dump(value));
  size_t bytes = 0;
  for (const auto& [name, facts] : parts["tensors"].items()) {
    if (!facts.is_array() || facts.size() != 2 || !facts[1].is_array()) return "";
    size_t size = facts[0] == "I64" || facts[0] == "F64" ? 8 : facts[0] == "F32" ? 4 : 2;
    for (const auto& one : facts[1]) {
      if (!one.is_number_unsigned() || one > max_data) return "";
      size *= one.get<size_t>();
      if (size > max_data) return "";
    }
    header[name] = {
        {"dtype", facts[0]}, {"shape", facts[1]}, {"data_offsets", {bytes, bytes + size}}};
    bytes += size;
  }
  if (bytes > max_data) return "";
  const std::string text = dump(header);
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + std::string(bytes, '\0');
}

// What a comparison does with one.
void read_all(const binade::lab::TorchRecording& recording) {
  for (size_t i = 0; i < recording.results().size(); ++i) {
    const auto& result = recording.results()[i];
    for (const int64_t from : result.from) {
      if (from < 0 || std::cmp_greater_equal(from, i)) std::abort();
    }
    if (!result.value.empty()) recording.load(result.value);
    recording.gradient_of(result);
  }
  for (const auto& [name, weight] : recording.weights()) {
    recording.load(weight.sample);
    // A comparison asks for gradients of weights that have a parameter's shape.
    if (weight.shape.numel() <= static_cast<int64_t>(max_data)) recording.gradient_of(weight);
  }
}

}  // namespace

// A recording is refused, or all that it names is there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const binade::fuzz::MemoryFile file;
  const nlohmann::json parts = nlohmann::json::parse(data, data + size, nullptr, false);
  const std::string recording = recording_of(parts);
  if (recording.empty()) return 0;
  try {
    read_all(binade::lab::TorchRecording(
        file.holding(reinterpret_cast<const uint8_t*>(recording.data()), recording.size())));
  } catch (const binade::Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(data, size, max_size, seed,
                                   {"metadata",
                                    "tensors",
                                    "binade_recording",
                                    "1",
                                    "records",
                                    "weights",
                                    "random",
                                    "skipped",
                                    "module",
                                    "op",
                                    "function",
                                    "line",
                                    "outputs",
                                    "from",
                                    "no_gradient",
                                    "shape",
                                    "checksum",
                                    "0123456789abcdef",
                                    "tokens",
                                    "targets",
                                    "value/0/y",
                                    "gradient/0/y",
                                    "value/1/y",
                                    "weight/w",
                                    "parameter/w",
                                    "F32",
                                    "BF16",
                                    "F64",
                                    "I64"});
}
