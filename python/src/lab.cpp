#include <nanobind/stl/filesystem.h>

#include "binade/lab/diagnosis.h"
#include "binade/lab/plan.h"
#include "binade/lab/replay/at.h"
#include "binade/train/config/component_options.h"
#include "binade/train/memory/device_memory.h"
#include "bindings.h"

namespace binade::python {
namespace {

using lab::Diagnosis;
using lab::Finding;

nb::dict facts_of(const Finding& finding) {
  nb::dict facts;
  facts["op"] = finding.op;
  facts["module"] = finding.module;
  facts["direction"] = std::string(lab::name(finding.direction));
  facts["tensor"] = finding.tensor;
  facts["dtype"] = finding.dtype;
  facts["index"] = finding.first.index;
  facts["value"] = finding.first.value;
  facts["count"] = finding.first.count;
  facts["largest_input"] = finding.largest_input;
  facts["scale"] = finding.scale;
  return facts;
}

// `loss` takes whether to run in f32.
std::optional<Diagnosis> diagnose(nb::handle loss, const lab::NamedTensors& parameters,
                                  double scale) {
  const lab::DiagnosisInput input{
      .loss = [&](const lab::Replay& replay) { return nb::cast<Tensor>(loss(replay.f32)); },
      .parameters = [&](const lab::Replay&) { return parameters; },
      .scale = scale};
  return lab::diagnose(input);
}

nb::list plan(const train::Config& config, std::optional<int64_t> memory) {
  std::vector<lab::PlanRow> rows;
  {
    const nb::gil_scoped_release no_gil;
    rows = lab::plan(config, memory.value_or(train::total_memory(train::device_of(config)))).rows;
  }
  nb::list result;
  for (const lab::PlanRow& row : rows) {
    nb::dict bytes, entry;
    for (int i = 0; i < memory::category_count; ++i) {
      const auto category = static_cast<memory::Category>(i);
      bytes[std::string(memory::name(category)).c_str()] = row.forecast.of(category);
    }
    entry["name"] = row.name;
    entry["precision"] = std::string(train::name(row.config.precision.matmul));
    entry["recompute"] = row.config.train.activations == nn::Activations::recompute();
    entry["parameters"] = row.forecast.parameter_count;
    entry["bytes"] = bytes;
    entry["weight_copies"] = row.forecast.weight_copies;
    entry["snapshot"] = row.forecast.snapshot;
    entry["peak"] = row.forecast.run_peak();
    entry["largest_batch"] = row.largest_batch;
    entry["tokens_per_second"] = row.speed.likely;
    result.append(entry);
  }
  return result;
}

nb::dict hash_of(const lab::StepView& view) {
  nb::dict hash;
  for (const auto& [part, value] : view.hash) hash[part.c_str()] = value;
  return hash;
}

nb::dict values_of(const lab::StepView& view) {
  nb::dict values;
  for (const lab::ViewedTensor& one : view.tensors) values[one.name.c_str()] = one.value;
  return values;
}

nb::dict summaries_of(const lab::StepView& view) {
  nb::dict summaries;
  for (const lab::ViewedTensor& one : view.tensors) {
    const lab::TensorSummary& s = one.summary;
    nb::dict facts;
    facts["min"] = s.numbers.min;
    facts["max"] = s.numbers.max;
    facts["mean"] = s.numbers.mean;
    facts["rms"] = s.rms;
    facts["zeros"] = s.numbers.zeros;
    facts["non_finite"] = s.numbers.infinities + s.numbers.nans;
    facts["saturated"] = s.saturated;
    facts["exponents"] = nb::dict();
    for (const auto& [exponent, count] : s.numbers.exponents)
      facts["exponents"][nb::int_(exponent)] = count;
    if (s.shadow) {
      facts["flushed"] = s.shadow->flushed;
      facts["from_f32"] = s.shadow->relative;
    }
    if (!one.unobserved.empty()) facts["unobserved"] = one.unobserved;
    summaries[one.name.c_str()] = facts;
  }
  return summaries;
}

void bind_replay(nb::module_& m) {
  using lab::StepView;
  nb::class_<StepView>(m, "StepView", "Tensors of a replayed step of a run.")
      .def_ro("step", &StepView::step)
      .def_ro("micro", &StepView::micro)
      .def_ro("origin", &StepView::origin,
              "Step of the checkpoint that the replay began with; 0: the start.")
      .def_ro("compared", &StepView::compared, "Recorded hashes that the replay has met.")
      .def_prop_ro("equal", &StepView::equal, "Whether this is what the run did.")
      .def_ro("loss", &StepView::loss)
      .def_ro("gradient_norm", &StepView::gradient_norm)
      .def_ro("applied", &StepView::applied)
      .def_ro("reason", &StepView::reason, "Why the step was skipped.")
      .def_ro("notes", &StepView::notes)
      .def_prop_ro("hash", &hash_of, "Of the state after the step, by its parts.")
      .def_prop_ro("tensors", &values_of, "The values by name.")
      .def_prop_ro("summaries", &summaries_of, "Statistics by name, as dicts.")
      .def(
          "save",
          [](const StepView& self, const std::filesystem::path& file) {
            lab::save_view(self, file.string());
          },
          "file"_a, "Writes the values as safetensors.")
      .def("__str__", [](const StepView& self) { return lab::view_text(self, false); });
  m.def(
      "_at",
      [](const std::string& run, int64_t step, int64_t micro,
         const std::vector<std::string>& tensors, bool shadow) {
        return lab::at(run, {.step = step, .micro = micro, .tensors = tensors, .shadow = shadow});
      },
      "run"_a, "step"_a, "micro"_a, "tensors"_a, "shadow"_a, ReleaseGil());
  m.def(
      "_branch",
      [](const std::string& run, int64_t step, const std::string& folder,
         const std::vector<std::string>& settings) {
        return lab::branch(run, {.step = step, .folder = folder, .settings = settings}).command;
      },
      "run"_a, "step"_a, "folder"_a, "settings"_a, ReleaseGil());
}

}  // namespace

void bind_lab(nb::module_& m) {
  nb::class_<Diagnosis>(m, "Diagnosis", "The cause of a non-finite value.")
      .def_prop_ro("verdict",
                   [](const Diagnosis& self) { return std::string(lab::name(self.verdict)); })
      .def_ro("advice", &Diagnosis::advice, "The smallest change that helps.")
      .def_ro("largest_scale", &Diagnosis::largest_scale)
      .def_prop_ro("finding", [](const Diagnosis& self) { return facts_of(self.finding); })
      .def("__str__", [](const Diagnosis& self) { return lab::to_text(self); });
  m.def("_diagnose", &diagnose, "loss"_a, "parameters"_a, "scale"_a);
  m.def("_plan", &plan, "config"_a, "memory"_a.none());
  bind_replay(m);
}

}  // namespace binade::python
