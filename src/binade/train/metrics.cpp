#include "binade/train/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr std::string_view csv_header =
    "step,loss,validation_loss,lr,gradient_norm,scale,applied,skipped,tokens_per_second,memory,"
    "seconds\n";
constexpr int64_t max_bytes = int64_t{4} << 30;

void put(json::Writer& out, const char* key, double value) {
  out.key(key);
  if (std::isfinite(value)) {
    out.value(value);
  } else {
    out.value(nullptr);
  }
}

std::string csv_line(const Record& r) {
  const auto cell = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
  };
  return fmt::format("{},{},{},{},{},{},{},{},{:.1f},{},{:.3f}\n", r.step, cell(r.loss),
                     cell(r.validation_loss), r.lr, cell(r.gradient_norm), r.scale,
                     r.applied ? 1 : 0, r.skipped, r.tokens_per_second, r.memory, r.seconds);
}

double number(const json::Value& object, const char* key) {
  const json::Value& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

Record parse(std::string_view line, const std::string& file, int64_t offset) {
  constexpr int64_t most = int64_t{1} << 60;
  const json::Document document = json::parse(line, {"metrics", file, offset});
  const json::Value& object = document.root();
  Record r;
  r.step = object.at("step").integer(0, most);
  r.loss = number(object, "loss");
  if (object.find("validation_loss") != nullptr)
    r.validation_loss = number(object, "validation_loss");
  r.lr = number(object, "lr");
  r.gradient_norm = number(object, "gradient_norm");
  r.scale = number(object, "scale");
  r.applied = object.at("applied").boolean();
  r.skipped = object.at("skipped").integer(0, most);
  r.tokens_per_second = number(object, "tokens_per_second");
  r.memory = object.at("memory").integer(0, most);
  r.seconds = number(object, "seconds");
  return r;
}

std::vector<io::Scalar> scalars_of(const Record& r) {
  std::vector<io::Scalar> scalars;
  if (r.validation_loss) scalars.push_back({"loss/validation", *r.validation_loss});
  if (r.step == 0) return scalars;  // the untrained model
  scalars.push_back({"loss/train", r.loss});
  scalars.push_back({"lr", r.lr});
  scalars.push_back({"gradient_norm", r.gradient_norm});
  scalars.push_back({"loss_scale", r.scale});
  scalars.push_back({"tokens_per_second", r.tokens_per_second});
  scalars.push_back({"memory", static_cast<double>(r.memory)});
  return scalars;
}

}  // namespace

std::string to_json(const Record& r) {
  json::Writer out;
  out.begin_object().key("step").value(r.step);
  put(out, "loss", r.loss);
  if (r.validation_loss) put(out, "validation_loss", *r.validation_loss);
  put(out, "lr", r.lr);
  put(out, "gradient_norm", r.gradient_norm);
  put(out, "scale", r.scale);
  out.key("applied").value(r.applied).key("skipped").value(r.skipped);
  put(out, "tokens_per_second", std::round(r.tokens_per_second * 10) / 10);
  out.key("memory").value(r.memory);
  put(out, "seconds", std::round(r.seconds * 1000) / 1000);
  return out.end_object().text();
}

std::vector<Record> read_metrics(const std::filesystem::path& path) {
  std::vector<Record> records;
  const std::string text = io::read_text(path, "metrics", max_bytes);
  size_t begin = 0;
  // Text after the last newline is an incomplete record.
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    records.push_back(parse(std::string_view(text).substr(begin, end - begin), path.string(),
                            static_cast<int64_t>(begin)));
  }
  return records;
}

MetricsLog::MetricsLog(const std::filesystem::path& folder, int64_t step)
    : folder_(folder), events_(folder / "tb", step) {
  const auto json_path = folder / "metrics.jsonl", csv_path = folder / "metrics.csv";
  if (step > 0 && std::filesystem::exists(json_path)) {
    records_ = read_metrics(json_path);
    std::erase_if(records_, [step](const Record& r) { return r.step > step; });
  }
  // Replaced atomically, so that a run that is killed here loses no record.
  io::AtomicFile json(json_path, "metrics"), csv(csv_path, "metrics");
  csv.append(csv_header);
  for (const Record& record : records_) {
    json.append(to_json(record) + "\n");
    csv.append(csv_line(record));
  }
  json.commit();
  csv.commit();
  json_.open(json_path, std::ios::binary | std::ios::app);
  csv_.open(csv_path, std::ios::binary | std::ios::app);
}

void MetricsLog::add(const Record& record) {
  records_.push_back(record);
  json_ << to_json(record) << '\n' << std::flush;
  csv_ << csv_line(record) << std::flush;
  events_.add(record.step, scalars_of(record));
  if (!json_ || !csv_) {
    fail("metrics", {.argument = (folder_ / "metrics.jsonl").string(),
                     .expected = "a successful write",
                     .found = "a failed write",
                     .hint = "is the disk full? Checkpoints so far are untouched"});
  }
}

}  // namespace binade::train
