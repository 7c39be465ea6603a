#pragma once

#include <map>
#include <string>

#include "binade/io/gguf/architecture.h"
#include "binade/io/gguf/file.h"
#include "binade/io/huggingface_parts.h"
#include "binade/io/linear_targets.h"

// Loading weights that a model keeps in blocks. Not part of the public interface.
namespace binade::io {

class BaseParts {
 public:
  explicit BaseParts(nn::LanguageModel& model);

  // Whether a part belongs to a weight in blocks.
  bool hold(const Part& part) const { return find(part) != nullptr; }
  // Codes a tensor of a file, whose elements are in that file's order.
  void encode(const Part& part, const Tensor& source) const;
  // Copies a tensor's own blocks if the model has them in its type; else codes its values.
  void load(const gguf::NamedPart& part, const gguf::File& file) const;

 private:
  const BlockWeight* find(const Part& part) const;
  // Codes f32 rows in the model's order.
  void encode_rows(const Part& part, const Tensor& rows) const;

  std::map<std::string, nn::Linear*> linears_;  // by the name of the weight
};

}  // namespace binade::io
