#include "binade/train/run/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr const char* damaged_name = "metrics.jsonl.damaged";
constexpr std::string_view csv_header =
    "step,loss,validation_loss,lr,gradient_norm,scale,applied,skipped,tokens_per_second,memory,"
    "seconds,tokens\n";

void put(json::Writer& out, std::string_view key, double value) {
  out.key(key);
  if (std::isfinite(value)) {
    out.value(value);
  } else {
    out.value(nullptr);
  }
}

void put(json::Writer& out, std::string_view key, const std::optional<Preferences>& preferences) {
  if (!preferences) return;
  out.key(key).begin_object();
  for (const auto& [name, value] : preference_numbers) put(out, name, (*preferences).*value);
  put(out, "margin", preferences->margin());
  out.end_object();
}

std::string csv_line(const Record& r) {
  const auto cell = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
  };
  return fmt::format("{},{},{},{},{},{},{},{},{:.1f},{},{:.3f},{}\n", r.step, cell(r.loss),
                     cell(r.validation_loss), r.lr, cell(r.gradient_norm), r.scale,
                     r.applied ? 1 : 0, r.skipped, r.tokens_per_second, r.memory, r.seconds,
                     r.tokens ? std::to_string(*r.tokens) : "");
}

double number(const json::Value& object, std::string_view key) {
  const json::Value& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

std::optional<Preferences> preferences_in(const json::Value& object, const char* key) {
  const json::Value* found = object.find(key);
  if (found == nullptr) return {};
  Preferences result;
  for (const auto& [name, value] : preference_numbers) result.*value = number(*found, name);
  return result;
}

Record parse(std::string_view line, const std::string& file, int64_t offset) {
  constexpr int64_t most = int64_t{1} << 60;
  const json::Document document = json::parse(line, {"metrics", file, offset});
  io::check_checksum(line, fmt::format("{}, byte {}", file, offset), "metrics");
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
  if (const json::Value* tokens = object.find("tokens")) r.tokens = tokens->integer(0, most);
  if (object.find("joules_per_token") != nullptr)
    r.joules_per_token = number(object, "joules_per_token");
  r.preferences = preferences_in(object, "preferences");
  r.validation_preferences = preferences_in(object, "validation_preferences");
  if (const json::Value* link = object.find("hash")) r.link = parse_link(*link, r.step);
  return r;
}

// Under TRL's names.
void add_preferences(const std::optional<Preferences>& preferences, const std::string& suffix,
                     std::vector<io::Scalar>& scalars) {
  if (!preferences) return;
  scalars.push_back({"rewards/chosen" + suffix, preferences->chosen_reward});
  scalars.push_back({"rewards/rejected" + suffix, preferences->rejected_reward});
  scalars.push_back({"rewards/margins" + suffix, preferences->margin()});
  scalars.push_back({"rewards/accuracies" + suffix, preferences->accuracy});
  scalars.push_back({"logps/chosen" + suffix, preferences->chosen_log_prob});
  scalars.push_back({"logps/rejected" + suffix, preferences->rejected_log_prob});
}

std::vector<io::Scalar> scalars_of(const Record& r) {
  std::vector<io::Scalar> scalars;
  if (r.validation_loss) scalars.push_back({"loss/validation", *r.validation_loss});
  add_preferences(r.validation_preferences, "/validation", scalars);
  if (r.step == 0) return scalars;  // the untrained model
  scalars.push_back({"loss/train", r.loss});
  scalars.push_back({"lr", r.lr});
  scalars.push_back({"gradient_norm", r.gradient_norm});
  scalars.push_back({"loss_scale", r.scale});
  scalars.push_back({"tokens_per_second", r.tokens_per_second});
  scalars.push_back({"memory", static_cast<double>(r.memory)});
  if (r.joules_per_token) scalars.push_back({"joules_per_token", *r.joules_per_token});
  add_preferences(r.preferences, "", scalars);
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
  if (r.tokens) out.key("tokens").value(*r.tokens);
  if (r.joules_per_token) put(out, "joules_per_token", *r.joules_per_token);
  put(out, "preferences", r.preferences);
  put(out, "validation_preferences", r.validation_preferences);
  if (r.link) write_link(out.key("hash"), *r.link);
  return out.end_object().text();
}

void visit_metrics(
    const io::Path& path,
    const std::function<void(const Record& record, std::string_view line)>& visit,
    const std::function<void(const std::string& message, std::string_view line)>& damaged) {
  const io::MappedFile file(path, "metrics");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  size_t begin = 0;
  // Text after the last newline is an incomplete record.
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = text.substr(begin, end - begin);
    std::optional<Record> record;
    try {
      record = parse(line, path.string(), static_cast<int64_t>(begin));
    } catch (const Error& error) {
      damaged(error.what(), line);
    }
    if (record) visit(*record, line);
  }
  file.check_intact("metrics");
}

std::vector<Record> read_metrics(const io::Path& path, int64_t* damaged) {
  std::vector<Record> records;
  std::string first;
  int64_t count = 0;
  visit_metrics(
      path, [&](const Record& record, std::string_view) { records.push_back(record); },
      [&](const std::string& message, std::string_view) {
        if (count++ == 0) first = message;
      });
  if (damaged != nullptr) {
    *damaged = count;
  } else if (count > 0) {
    fail("metrics", {.argument = path.string(),
                     .expected = "a record in every line",
                     .found = fmt::format("{} damaged, the first: {}", count, first)});
  }
  return records;
}

MetricsLog::MetricsLog(const io::Path& folder, int64_t step) : events_(folder / "tb", step) {
  const io::Path json_path = folder / "metrics.jsonl", csv_path = folder / "metrics.csv";
  // Replaced atomically, so that a run that is killed here loses no record.
  io::AtomicFile json(json_path, "metrics"), csv(csv_path, "metrics");
  std::string json_text, csv_text(csv_header);
  const auto flush = [&](size_t least) {
    if (json_text.size() < least) return;
    json.append(json_text);
    csv.append(csv_text);
    json_text.clear();
    csv_text.clear();
  };
  int64_t damaged = 0, steps = 0;
  std::optional<io::AppendFile> aside;  // for damaged lines
  if (step > 0 && json_path.exists()) {
    visit_metrics(
        json_path,
        [&](const Record& record, std::string_view line) {
          if (record.step > step) return;
          if (record.step > 0) ++steps;
          json_text += line;
          json_text += '\n';
          csv_text += csv_line(record);
          note(record);
          flush(1 << 20);
        },
        [&](const std::string& message, std::string_view line) {
          if (damaged++ == 0) warning_ = message;
          if (!aside) aside.emplace(folder / damaged_name, "metrics");
          aside->append(std::string(line) + "\n");
        });
  }
  if (damaged > 0)
    warning_ = fmt::format("{} damaged line{} moved from metrics.jsonl to {}: {}", damaged,
                           damaged == 1 ? " was" : "s were", damaged_name, warning_);
  if (damaged == 0 && steps < step)
    warning_ = fmt::format(
        "metrics.jsonl lacks {} of the {} steps before the checkpoint: the report shows the others",
        step - steps, step);
  flush(0);
  json.commit();
  csv.commit();
  json_.emplace(json_path, "metrics");
  csv_.emplace(csv_path, "metrics");
}

void MetricsLog::note(const Record& record) {
  is_empty_ = false;
  seconds_ = record.seconds;
  tokens_ = record.tokens;
  losses_.add(record);
  skipped_.add(record);
}

void SkippedSteps::add(const Record& record) {
  if (record.applied || record.step == 0) return;
  ++(std::isfinite(record.loss) ? by_gradient : by_loss);
}

void LossHistory::add(const Record& record) {
  if (!record.validation_loss) return;
  ++validations;
  if (!first) first = record.validation_loss;
  last = record.validation_loss;
  last_preferences = record.validation_preferences;
  if (record.step == 0) return;  // the untrained model
  ++validations_since_best;
  const bool better = !best || *record.validation_loss < *best;
  if (!better || !std::isfinite(*record.validation_loss)) return;
  best = record.validation_loss;
  best_step = record.step;
  validations_since_best = 0;
}

void MetricsLog::add(const Record& record) {
  note(record);
  const std::string line = io::with_checksum(to_json(record)) + "\n";
  try {
    json_->append(line);
  } catch (const Error&) {
    // The run saves a checkpoint before this failure ends it. Its log must have the step, too: a
    // resumed run makes the other files from this one, and never this record again.
    try {
      json_->append(line);
    } catch (const Error&) {  // as the first time
    }
    throw;
  }
  csv_->append(csv_line(record));
  events_.add(record.step, scalars_of(record));
}

void MetricsLog::sync() {
  json_->sync();
  csv_->sync();
}

}  // namespace binade::train
