#include "binade/lab/diagnosis.h"
#include "binade/lab/plan.h"
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
}

}  // namespace binade::python
