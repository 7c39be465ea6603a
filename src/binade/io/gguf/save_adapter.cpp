#include "binade/io/gguf/save_adapter.h"

#include <cmath>
#include <map>

#include "binade/autograd/grad_mode.h"
#include "binade/io/adapter_parts.h"
#include "binade/io/gguf/architecture.h"
#include "binade/io/gguf/save.h"
#include "binade/io/gguf/writer.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::io::gguf {
namespace {

// A tensor of its own, called "rows", whose rows are those of a part.
Part rows_alone(Part part) {
  part.parameter = "rows";
  part.begin = part.rows = 0;
  part.transposed = false;  // adapters are [out, rank] for any layout of the weight
  return part;
}

// Rows of Hugging Face's order in that of a GGUF file.
Tensor reordered(const Tensor& b, const Part& from, const NamedPart& to) {
  const Tensor rows = Tensor::empty(b.shape(), DType::f32);
  const Tensor target = io::view_of({{"rows", rows}}, rows_alone(from));
  copy_(target, from.heads > 0 ? reshape(b, target.shape()) : b);
  NamedPart in_file = to;
  in_file.part = rows_alone(to.part);
  return reshape(contiguous(view_of({{"rows", rows}}, in_file)), b.shape());
}

std::map<std::string, NamedPart> parts_by_source(const Architecture& architecture,
                                                 const nn::LanguageModel& model) {
  std::map<std::string, NamedPart> parts;
  for (NamedPart& part : named_parts(architecture, model.config(), parameters_of(model)))
    parts.emplace(part.part.file_name, part);
  return parts;
}

}  // namespace

SavedAdapter save_adapter(const std::filesystem::path& folder, const Path& path,
                          const TensorType& type) {
  const nn::LanguageModel model(io::read_config(config_file(folder)), {Device::meta(), DType::f32});
  check_exportable(model.config());
  const Architecture& architecture = architecture_of(model.config());
  const double alpha = read_adapter_config(folder).lora.alpha;
  SavedAdapter saved{.parameters = 0, .alpha = alpha > 0 ? alpha : 1};  // 0 would stand for none
  Writer out;
  out.add("general.architecture", architecture.name);
  out.add("general.type", "adapter");
  out.add("adapter.type", "lora");
  out.add_f32("adapter.lora.alpha", saved.alpha);
  const NoGrad no_grad;
  const auto parts = parts_by_source(architecture, model);
  for (const AdapterPart& one : read_adapter_parts(model, folder)) {
    const NamedPart& part = parts.at(one.target.part.file_name);
    const Tensor a = contiguous(cast(one.a, DType::f32));
    Tensor b = reordered(cast(one.b, DType::f32), one.target.part, part);
    const double factor = one.scale * static_cast<double>(a.size(0)) / saved.alpha;
    if (std::abs(factor - 1) > 1e-12) b = b * factor;
    out.add_tensor(part.name + ".lora_a", a.shape(), type, [a] { return a; });
    out.add_tensor(part.name + ".lora_b", b.shape(), type, [b] { return b; });
    saved.parameters += a.numel() + b.numel();
  }
  out.write(path);
  return saved;
}

}  // namespace binade::io::gguf
