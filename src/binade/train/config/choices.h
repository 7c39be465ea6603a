#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "binade/data/chat/chat_template.h"
#include "binade/optim/catalog.h"
#include "binade/optim/schedule.h"
#include "binade/ranks/reduce_order.h"
#include "binade/tensor/device.h"
#include "binade/tensor/dtype.h"

// The choices of a configuration as types, each with one table of names that reading, --help and
// printing share.
namespace binade::train {

enum class Preset : uint8_t { tiny, small, gpt2_124m, gpt2_350m, gpt2_1_5b, llama_1_3b };

enum class ModelFamily : uint8_t { gpt2, llama };

// `quantized`: bf16 autocast, and linear layers by PrecisionSettings::recipe.
enum class Precision : uint8_t { fp32, tf32, bf16, fp16, quantized };

enum class ParameterStorage : uint8_t {
  autocast,  // f32 parameters, cast once per step
  masters,   // 16-bit parameters; the optimizer holds f32 master weights
  split,     // the same with bf16 parameters, which are the upper bits of the master weights
};

// What a run minimizes: the cross entropy of the next token, or the loss of direct preference
// optimization on pairs of answers.
enum class Objective : uint8_t { next_token, dpo };

using OptimizerKind = optim::Kind;  // those that optim/catalog.h offers to configurations

// Whether a GPU's steps are captured as a graph.
enum class GraphMode : uint8_t { automatic, on, off };

template <class T>
struct Named {
  std::string_view name;
  T value;
};

// In the order in which --help lists them. An empty optional is "auto".
inline constexpr Named<Preset> preset_names[] = {
    {"tiny", Preset::tiny},           {"small", Preset::small},
    {"gpt2-124m", Preset::gpt2_124m}, {"gpt2-350m", Preset::gpt2_350m},
    {"gpt2-1.5b", Preset::gpt2_1_5b}, {"llama-1.3b", Preset::llama_1_3b}};
inline constexpr Named<ModelFamily> model_names[] = {{"gpt2", ModelFamily::gpt2},
                                                     {"llama", ModelFamily::llama}};
inline constexpr Named<Objective> objective_names[] = {{"next-token", Objective::next_token},
                                                       {"dpo", Objective::dpo}};
inline constexpr Named<std::optional<bool>> tied_head_names[] = {
    {"auto", {}}, {"true", true}, {"false", false}};
inline constexpr Named<Precision> precision_names[] = {{"fp32", Precision::fp32},
                                                       {"tf32", Precision::tf32},
                                                       {"bf16", Precision::bf16},
                                                       {"fp16", Precision::fp16},
                                                       {"fp8", Precision::quantized}};
inline constexpr Named<ParameterStorage> parameter_names[] = {
    {"autocast", ParameterStorage::autocast},
    {"masters", ParameterStorage::masters},
    {"split", ParameterStorage::split}};
inline constexpr Named<std::optional<DType>> residual_names[] = {
    {"auto", {}}, {"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
inline constexpr Named<DType> moments_names[] = {
    {"f32", DType::f32}, {"bf16", DType::bf16}, {"8bit", DType::u8}};
inline constexpr Named<DType> gradient_names[] = {{"f32", DType::f32}, {"bf16", DType::bf16}};
inline constexpr Named<DType> reduce_names[] = {
    {"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
inline constexpr Named<ranks::ReduceOrder> reduce_order_names[] = {
    {"fixed", ranks::ReduceOrder::fixed}, {"any", ranks::ReduceOrder::any}};
inline constexpr Named<GraphMode> graph_names[] = {
    {"auto", GraphMode::automatic}, {"on", GraphMode::on}, {"off", GraphMode::off}};
inline constexpr Named<std::optional<Device>> device_names[] = {
    {"auto", {}}, {"cpu", Device::cpu()}, {"cuda", Device::cuda()}};
inline constexpr Named<std::optional<data::ChatFormat>> chat_names[] = {
    {"auto", {}},
    {"chatml", data::ChatFormat::chatml},
    {"llama3", data::ChatFormat::llama3},
    {"gemma", data::ChatFormat::gemma},
    {"mistral", data::ChatFormat::mistral}};
// By the names that optim has for them.
inline const Named<optim::ScheduleKind> schedule_names[] = {
    {optim::name(optim::ScheduleKind::constant), optim::ScheduleKind::constant},
    {optim::name(optim::ScheduleKind::linear), optim::ScheduleKind::linear},
    {optim::name(optim::ScheduleKind::cosine), optim::ScheduleKind::cosine},
    {optim::name(optim::ScheduleKind::cooldown), optim::ScheduleKind::cooldown}};

// By those of optim's catalog.
inline const std::vector<Named<OptimizerKind>> optimizer_names = [] {
  std::vector<Named<OptimizerKind>> names;
  for (const optim::Description& one : optim::catalog()) {
    if (!one.choice.empty()) names.push_back({one.choice, one.kind});
  }
  return names;
}();

// The value called `name` in a table, if there is one.
template <class Table>
auto find_named(const Table& table, std::string_view name)
    -> std::optional<decltype(std::begin(table)->value)> {
  for (const auto& one : table) {
    if (one.name == name) return one.value;
  }
  return {};
}

// The name of a value; fails for one that its table does not have.
template <class Table, class T>
std::string_view name_in(const Table& table, const T& value) {
  for (const auto& one : table) {
    if (one.value == value) return one.name;
  }
  fail("config", {.argument = "a choice", .expected = "a value with a name", .found = "another"});
}

inline std::string_view name(ModelFamily family) { return name_in(model_names, family); }
inline std::string_view name(Precision precision) { return name_in(precision_names, precision); }
inline std::string_view name(ParameterStorage params) { return name_in(parameter_names, params); }

// The precision called `text`. Fails on anything else, naming the known ones.
Precision parse_precision(std::string_view text);

}  // namespace binade::train
