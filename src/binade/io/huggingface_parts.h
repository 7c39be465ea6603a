#pragma once

#include <string>
#include <vector>

#include "binade/io/families/family.h"

// How the tensors of a Hugging Face file map to Binade's parameters. Not part of the public
// interface.
namespace binade::io {

// A tensor of a Hugging Face file as a part of one of Binade's parameters: rows
// [begin, begin + rows), or all of them if rows is 0; stored as [in, out] if transposed, or with q,
// k and v of each head in turn if `heads` is not 0.
struct Part {
  std::string file_name;  // the tensor's name in the file
  std::string parameter;
  int64_t begin = 0;
  int64_t rows = 0;
  bool transposed = false;
  int64_t heads = 0;
  Rows kind = Rows::all;
};

// The parts of a model with these parameters, the embedding first.
std::vector<Part> parts_of(const nn::LanguageModelConfig& config, const StateDict& parameters);

// A model's parameters by name, sharing their data. Those that it keeps in blocks have a shape, but
// no data.
StateDict parameters_of(const nn::LanguageModel& model);

// A writable view of the rows of a parameter that a part stands for, with the elements in the
// file's order; that of rows by head has an axis for heads and one for q, k and v.
Tensor view_of(const StateDict& parameters, const Part& part);

// The shape of a part's tensor in the file.
Shape file_shape(const StateDict& parameters, const Part& part);

}  // namespace binade::io
