#include "binade/lab/torch_diff/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "binade/base/error.h"
#include "binade/formats/format.h"
#include "binade/ops/create/create.h"

namespace binade::lab {
namespace {

constexpr const char* reader = "diff";
constexpr const char* how_to_record = "record it again with binade.torch.record";
constexpr int64_t max_results = 1'000'000;
constexpr int64_t max_elements = int64_t{1} << 40;  // of a weight

[[noreturn]] void refuse(const std::string& file, std::string expected, std::string found) {
  fail(reader, {.argument = file,
                .expected = std::move(expected),
                .found = std::move(found),
                .hint = how_to_record});
}

const std::string& metadata_of(const io::SafetensorsFile& file, const std::string& name,
                               const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    refuse(name, "a recording of a torch model", "no " + key + " in its metadata");
  return found->second;
}

std::string optional_text(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value == nullptr ? "" : value->string();
}

bool flag(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value != nullptr && value->boolean();
}

std::vector<std::string> texts(const json::Value* list) {
  std::vector<std::string> found;
  if (list == nullptr) return found;
  for (const json::Value& one : list->array()) found.push_back(one.string());
  return found;
}

bool is_floating(std::optional<DType> dtype) {
  return dtype && (is_compute(*dtype) || *dtype == DType::f64);
}

uint64_t parsed_checksum(const json::Value& value) {
  const std::string& text = value.string();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    value.refuse("16 hexadecimal digits", value.describe());
  return number;
}

Shape parsed_shape(const json::Value& value) {
  if (std::ssize(value.array()) > max_rank)
    value.refuse(fmt::format("at most {} dimensions", max_rank), "more");
  std::vector<int64_t> sizes;
  int64_t most = max_elements;  // of the sizes to come
  for (const json::Value& size : value.array()) {
    sizes.push_back(size.integer(0, most));
    most /= std::max<int64_t>(sizes.back(), 1);
  }
  return Shape(sizes);
}

}  // namespace

double unit_roundoff(DType dtype) {
  return dispatch(dtype, [](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, double>) {
      return std::numeric_limits<double>::epsilon() / 2;
    } else if constexpr (std::is_integral_v<T>) {
      return 0.0;
    } else {
      return formats::format_of<T>.epsilon() / 2;
    }
  });
}

uint64_t weight_checksum(const Tensor& x) {
  const auto sum_of = [&x](const auto* bits) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i)
      sum += (uint64_t{bits[i]} + 1) * (2 * static_cast<uint64_t>(i) + 1);
    return sum;
  };
  const void* data = x.raw_data();
  if (x.element_size() == 2) return sum_of(static_cast<const uint16_t*>(data));
  if (x.element_size() == 4) return sum_of(static_cast<const uint32_t*>(data));
  return sum_of(static_cast<const uint64_t*>(data));
}

TorchRecording::TorchRecording(const io::Path& path)
    : name_(path.string()), file_(path), roundoff_(unit_roundoff(DType::f32)) {
  const std::string& version = metadata_of(file_, name_, "binade_recording");
  if (version != "1") refuse(name_, "a recording of version 1", "version " + version);
  const auto read = [&](const char* key, auto&& use) {
    const json::Document document =
        json::parse(metadata_of(file_, name_, key), {.reader = reader, .file = name_});
    use(document.root());
  };
  read("records", [this](const json::Value& root) { read_results(root); });
  read("weights", [this](const json::Value& root) { read_weights(root); });
  read("random", [this](const json::Value& root) { random_ = texts(&root); });
  read("skipped", [this](const json::Value& root) { skipped_ = texts(&root); });
  read_tensors();
  tokens_ = batch("tokens");
  if (!tokens_.defined()) refuse(name_, "tokens [batch, tokens]", "none");
  targets_ = batch("targets");
  if (targets_.defined() && targets_.shape() != tokens_.shape())
    refuse(name_, "targets " + to_string(tokens_.shape()), describe(targets_));
}

void TorchRecording::read_results(const json::Value& results) {
  if (std::ssize(results.array()) > max_results)
    results.refuse(fmt::format("at most {} results", max_results), results.describe());
  for (const json::Value& one : results.array()) {
    const auto index = static_cast<int64_t>(results_.size());
    RecordedResult result;
    result.module = optional_text(one, "module");
    result.op = one.at("op").string();
    result.function = optional_text(one, "function");
    result.line = optional_text(one, "line");
    result.outputs = texts(one.find("outputs"));
    result.has_no_gradient = flag(one, "no_gradient");
    if (const json::Value* from = one.find("from")) {
      for (const json::Value& source : from->array())
        result.from.push_back(source.integer(0, index - 1));
    }
    results_.push_back(std::move(result));
  }
}

void TorchRecording::read_weights(const json::Value& weights) {
  for (const auto& [name, facts] : weights.object()) {
    RecordedWeight weight;
    weight.shape = parsed_shape(facts.at("shape"));
    weight.checksum = parsed_checksum(facts.at("checksum"));
    weight.has_no_gradient = flag(facts, "no_gradient");
    weight.sample = "weight/" + name;
    const io::TensorEntry* sample = file_.find(weight.sample);
    if (sample == nullptr || !is_floating(sample->dtype) || sample->shape.size() != 1)
      refuse(name_, weight.sample + ", a floating tensor of one dimension",
             sample == nullptr ? "none" : io::describe(*sample));
    weight.dtype = *sample->dtype;
    weights_[name] = std::move(weight);
  }
}

void TorchRecording::take_result(const io::TensorEntry& entry, std::string_view rest,
                                 bool gradient) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != '/' ||
      index >= results_.size())
    refuse(name_, fmt::format("tensors of its {} results", results_.size()), entry.name);
  RecordedResult& result = results_[index];
  std::string& name = gradient ? result.gradient : result.value;
  if (!name.empty()) refuse(name_, "one tensor for each result", entry.name + " beside " + name);
  name = entry.name;
  has_gradients_ |= gradient;
  roundoff_ = std::max(roundoff_, unit_roundoff(*entry.dtype));
}

void TorchRecording::read_tensors() {
  for (const io::TensorEntry& entry : file_.entries()) {
    const std::string_view name = entry.name;
    if (name == "tokens" || name == "targets") continue;
    if (!is_floating(entry.dtype) || std::cmp_greater(entry.shape.size(), max_rank))
      refuse(name_, fmt::format("floating tensors of at most {} dimensions", max_rank),
             entry.name + " " + io::describe(entry));
    const std::string rest(name.substr(std::min(name.find('/'), name.size() - 1) + 1));
    if (name.starts_with("value/") || name.starts_with("gradient/")) {
      take_result(entry, rest, name.starts_with("gradient/"));
    } else if (name.starts_with("parameter/") && weights_.contains(rest)) {
      weights_[rest].gradient = entry.name;
      has_gradients_ = true;
    } else if (!name.starts_with("weight/") || !weights_.contains(rest)) {
      refuse(name_, "tensors of a recording", entry.name);
    }
  }
}

Tensor TorchRecording::batch(const char* tensor) const {
  const io::TensorEntry* entry = file_.find(tensor);
  if (entry == nullptr) return {};
  const bool is_batch = entry->dtype == DType::i64 && entry->shape.size() == 2 &&
                        entry->shape[0] > 0 && entry->shape[1] > 0;
  if (!is_batch) refuse(name_, fmt::format("{} I64 [batch, tokens]", tensor), io::describe(*entry));
  return file_.load(*entry);
}

Tensor TorchRecording::gradient_of(const RecordedResult& result) const {
  if (!result.gradient.empty()) return file_.load(result.gradient);
  const bool is_zero = result.has_no_gradient && has_gradients_ && !result.value.empty();
  return is_zero ? zeros(shape_of(result.value)) : Tensor();
}

Tensor TorchRecording::gradient_of(const RecordedWeight& weight) const {
  if (!weight.gradient.empty()) return file_.load(weight.gradient);
  return weight.has_no_gradient && has_gradients_ ? zeros(weight.shape) : Tensor();
}

Shape TorchRecording::shape_of(const std::string& tensor) const {
  return Shape(file_.find(tensor)->shape);
}

}  // namespace binade::lab
