#pragma once

#include <memory>
#include <span>
#include <vector>

#include "binade/data/batches.h"

namespace binade::data {

// Documents that batches hold whole: conversations, or prompts with their answers. Only some of
// their tokens are targets.
class Documents {
 public:
  struct Options {
    int64_t context = 1;  // tokens of a row; longer documents are cut
    bool packed = false;  // several documents may share a row
    bool paired = false;  // 2i and 2i + 1 are a pair: see Batch::reference
  };
  // Document i is the tokens [ends[i - 1], ends[i]) of `ids`. `is_target` has a 1 for each token to
  // predict, else a 0. Every document has a token to predict within the context.
  Documents(Tokens ids, Tokens is_target, std::vector<int64_t> ends, const Options& options);

  // The same documents, with the log-probability of each by the reference model.
  Documents with_reference(std::vector<float> log_probs) const;

  // Documents of several sources, of which each row of a batch is from one drawn by its weight.
  static Documents mixed(std::span<const std::shared_ptr<const Documents>> parts,
                         std::span<const double> weights);

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  // Rows of a batch that all documents fill; pairs, if there are any.
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  bool paired() const { return options_.paired; }
  const Tokens& is_target() const { return is_target_; }

  // Batches of rows, each with a weight by its number of targets. Training batches pass over all
  // rows in a new order each time, those of mixed documents have random rows; a batch is a function
  // of its arguments.
  Batch training_batch(BatchShape shape, uint64_t seed, int64_t step, int64_t micro) const;
  Batch validation_batch(BatchShape shape, int64_t index, int64_t count) const;
  // Inputs in all training batches of a step, without padding.
  int64_t training_tokens(BatchShape shape, uint64_t seed, int64_t step) const;
  // The ids of a document before its first target, and those targets up to the next id that is
  // none.
  struct Example {
    std::vector<int64_t> prompt, answer;
  };
  Example example(int64_t document) const;
  // Rows [begin, begin + shape.batch).
  Batch consecutive_batch(BatchShape shape, int64_t begin) const;

 private:
  struct Row {
    std::vector<int64_t> documents;
    int64_t targets = 0;
  };
  Documents() = default;
  int64_t begin_of(int64_t document) const {
    return document == 0 ? 0 : ends_[static_cast<size_t>(document) - 1];
  }
  // Tokens of a document that are inputs.
  int64_t inputs_of(int64_t document) const;
  void fill_rows();
  void fill_pairs();
  void add_to_row(size_t row, int64_t document);
  // Lines of a batch's tensors that a row takes.
  int64_t lines_per_row() const { return options_.paired ? 2 : 1; }
  Tensor reference_of(const std::vector<int64_t>& rows) const;
  // The row at place `index` of all passes.
  int64_t shuffled(int64_t index, uint64_t seed) const;
  // Row `index` of a step's batches.
  int64_t training_row(BatchShape shape, uint64_t seed, int64_t step, int64_t index) const;
  // Row `index` of `count` that are spread evenly over all.
  int64_t spread_row(int64_t index, int64_t count) const;
  Batch gathered(BatchShape shape, const std::vector<int64_t>& rows) const;
  int64_t targets_of(const std::vector<int64_t>& rows) const;

  Tokens ids_, is_target_;
  std::vector<int64_t> ends_;
  Options options_;
  std::vector<float> reference_;  // by document; empty: none
  std::vector<Row> rows_;
  std::vector<Tokens::Source> sources_;  // of mixed documents: ranges of rows
  int64_t width_ = 1;  // of the longest row; batches are not wider than they need to be
};

}  // namespace binade::data
