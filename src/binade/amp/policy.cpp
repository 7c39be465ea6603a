#include "binade/amp/policy.h"

#include <fmt/format.h>

namespace binade::amp {
namespace {

std::string_view parent(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view meaning(CastClass cast) {
  switch (cast) {
    case CastClass::lower:
      return "runs in the autocast type";
    case CastClass::f32:
      return "runs in f32";
    case CastClass::f32_unless_named:
      return "runs in f32 unless the caller names a type";
    case CastClass::promote:
      return "runs in the widest type of its inputs";
    case CastClass::refuse:
      return "refused under autocast";
    case CastClass::as_is:
      return "runs in the type of its inputs";
  }
  return "";
}

}  // namespace

std::shared_ptr<const Policy> Policy::torch_cpu() {
  using enum CastClass;
  auto policy = std::make_shared<Policy>();
  for (const Op op :
       {// pointwise
        Op::exp, Op::expm1, Op::log, Op::log2, Op::log10, Op::log1p, Op::reciprocal, Op::rsqrt,
        Op::tan, Op::sinh, Op::cosh, Op::acos, Op::asin, Op::erfinv, Op::pow, Op::softplus,
        Op::addcdiv, Op::addcmul, Op::atan2,
        // reductions and norms
        Op::sum, Op::cumsum, Op::cumprod, Op::norm, Op::softmax, Op::log_softmax, Op::logsumexp,
        Op::layer_norm, Op::group_norm, Op::rms_norm, Op::cosine_similarity,
        // products that only CUDA lowers or promotes
        Op::mv, Op::dot, Op::bilinear, Op::cross, Op::lstm_cell, Op::gru_cell,
        // indexing and sampling
        Op::index_put, Op::scatter_add, Op::upsample_nearest2d, Op::upsample_bilinear2d}) {
    policy->set(op, as_is);
  }
  policy->set(Op::tensordot, lower).set(Op::grid_sampler, f32).set(Op::binary_cross_entropy, f32);
  return policy;
}

Policy& Policy::set(Op op, CastClass cast, std::string_view module) {
  ops_[{std::string(module), op}] = cast;
  return *this;
}

Policy& Policy::set_module(std::string_view module, CastClass cast) {
  modules_[std::string(module)] = cast;
  return *this;
}

CastClass Policy::class_of(Op op, std::string_view path) const {
  if (empty()) return info(op).cast;
  for (std::string_view at = path;; at = parent(at)) {
    if (const auto found = ops_.find(std::pair(std::string(at), op)); found != ops_.end())
      return found->second;
    if (const auto found = modules_.find(at); found != modules_.end()) return found->second;
    if (at.empty()) return info(op).cast;
  }
}

std::string policy_text(const Policy& policy) {
  std::string text = fmt::format("{:<30} {:<18} {}\n", "op", "class", "under autocast");
  for (const OpInfo& entry : all_ops()) {
    const CastClass cast = policy.class_of(entry.op, "");
    text += fmt::format("{:<30} {:<18} {}\n", entry.name, name(cast), meaning(cast));
  }
  return text;
}

std::string policy_json(const Policy& policy) {
  std::string text = "[";
  for (const OpInfo& entry : all_ops()) {
    text += fmt::format("{}\n  {{\"op\": \"{}\", \"class\": \"{}\", \"differentiable\": {}}}",
                        text.size() > 1 ? "," : "", entry.name, name(policy.class_of(entry.op, "")),
                        entry.differentiable);
  }
  return text + "\n]\n";
}

}  // namespace binade::amp
