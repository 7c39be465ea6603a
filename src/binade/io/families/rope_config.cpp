#include "binade/io/families/rope_config.h"

#include <cmath>

#include "binade/io/families/config_values.h"

namespace binade::io {
namespace {

struct Rope {
  double theta = 10000;
  double fraction = 1;  // of a head's channels
  nn::RopeScaling scaling = {};
};

nn::RopeScaling read_scaling(const json::Value& object, const json::Value& kind,
                             const Family& family) {
  const std::string& name = kind.string();
  if (name == "default") return {};
  if (!family.scales_rope || (name != "linear" && name != "llama3")) {
    kind.refuse(family.scales_rope ? "default, linear or llama3" : "default", json::in_quotes(name),
                "Binade has no such variant");
  }
  const json::Value& factor = object.at("factor");
  if (factor.number() < 1) factor.refuse("at least 1", factor.describe());
  nn::RopeScaling scaling{.kind = nn::RopeScalingKind::linear, .factor = factor.number()};
  if (name == "linear") return scaling;
  scaling.kind = nn::RopeScalingKind::llama3;
  scaling.low = positive_or(object, "low_freq_factor", 1);
  scaling.high = positive_or(object, "high_freq_factor", 4);
  scaling.original_context = object.at("original_max_position_embeddings").integer(1, max_size);
  if (scaling.high <= scaling.low)
    object.at("high_freq_factor").refuse("more than low_freq_factor", "not more");
  return scaling;
}

// One description of rotary positions; members it lacks keep their values.
void read_object(const json::Value& object, const Family& family, Rope& rope) {
  for (const char* type : {"rope_type", "type"}) {
    if (const json::Value* kind = given(object, type)) {
      rope.scaling = read_scaling(object, *kind, family);
      break;
    }
  }
  rope.theta = positive_or(object, "rope_theta", rope.theta);
  rope.fraction = positive_or(object, "partial_rotary_factor", rope.fraction);
}

void write_object(json::Writer& out, const Rope& rope, bool with_theta, bool with_fraction) {
  out.begin_object();
  if (with_theta) out.key("rope_theta").value(rope.theta);
  if (with_fraction) out.key("partial_rotary_factor").value(rope.fraction);
  out.key("rope_type");
  const nn::RopeScaling& scaling = rope.scaling;
  if (scaling.kind == nn::RopeScalingKind::none) {
    out.value("default");
  } else {
    const bool linear = scaling.kind == nn::RopeScalingKind::linear;
    out.value(linear ? "linear" : "llama3").key("factor").value(scaling.factor);
    if (!linear) {
      out.key("low_freq_factor").value(scaling.low).key("high_freq_factor").value(scaling.high);
      out.key("original_max_position_embeddings").value(scaling.original_context);
    }
  }
  out.end_object();
}

}  // namespace

void read_rope(const json::Value& root, const Family& family, nn::LanguageModelConfig& config) {
  Rope rope{.theta = positive_or(root, family.keys.theta, family.theta),
            .fraction = positive_or(root, family.keys.rotary_fraction, family.rotary_fraction)};
  const bool has_local = family.facts.local_rope_theta.has_value();
  Rope local{.theta = positive_or(root, family.keys.local_theta,
                                  family.facts.local_rope_theta.value_or(family.theta))};
  // rope_scaling wins over rope_parameters, as in transformers.
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const json::Value* object = given(root, name);
    if (object == nullptr) continue;
    const json::Value* full = has_local ? given(*object, "full_attention") : nullptr;
    read_object(full != nullptr ? *full : *object, family, rope);
    if (full != nullptr) read_object(object->at("sliding_attention"), family, local);
  }
  config.rope_theta = rope.theta;
  config.rope_scaling = rope.scaling;
  if (has_local) config.local_rope_theta = local.theta;
  const int64_t head_dim = config.head_width();
  const auto rotary = static_cast<int64_t>(static_cast<double>(head_dim) * rope.fraction +
                                           1e-6);  // 30 / 44 * 44 is less than 30
  if (rope.fraction > 1 || rotary < 2 || rotary % 2 != 0) {
    const std::string_view key =
        given(root, family.keys.head_dim) != nullptr ? family.keys.head_dim : family.keys.heads;
    root.at(key).refuse("an even number of rotated channels per head", std::to_string(rotary));
  }
  config.rotary_dim = rotary == head_dim ? 0 : rotary;
}

void write_rope(json::Writer& out, const Family& family, const nn::LanguageModelConfig& config) {
  const int64_t head_dim = config.head_width(),
                rotary = config.rotary_dim != 0 ? config.rotary_dim : head_dim;
  const Rope rope{.theta = config.rope_theta,
                  .fraction = static_cast<double>(rotary) / static_cast<double>(head_dim),
                  .scaling = config.rope_scaling};
  const bool partial = !family.keys.rotary_fraction.empty(),
             scaled = rope.scaling.kind != nn::RopeScalingKind::none;
  out.key(family.keys.theta).value(rope.theta);
  if (partial) out.key(family.keys.rotary_fraction).value(rope.fraction);
  out.key("rope_scaling");
  if (scaled) {
    write_object(out, rope, false, false);
  } else {
    out.value(nullptr);
  }
  if (!config.local_rope_theta) {
    out.key("rope_parameters");
    return write_object(out, rope, true, partial);
  }
  out.key(family.keys.local_theta).value(*config.local_rope_theta);
  out.key("rope_parameters").begin_object().key("full_attention");
  write_object(out, rope, true, partial);
  out.key("sliding_attention");
  write_object(out, {.theta = *config.local_rope_theta}, true, partial);
  out.end_object();
}

}  // namespace binade::io
