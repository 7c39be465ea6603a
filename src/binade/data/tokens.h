#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace binade::data {

class Documents;  // data/documents.h

// A sequence of token ids of one, two or four bytes each, in memory or in mapped files. Copies
// share the data.
class Tokens {
 public:
  Tokens() = default;
  // `count` little-endian ids of `width` bytes at `data`, which `owner` keeps alive.
  Tokens(std::shared_ptr<const void> owner, const std::byte* data, int width, int64_t count);

  // Every byte of a text is a token.
  static Tokens of_bytes(std::string text);
  // Little-endian ids of `width` bytes each.
  static Tokens of_ids(std::string bytes, int width);
  // All sequences in this order.
  static Tokens joined(std::span<const Tokens> runs);
  // All sequences, with weights by which they are drawn from each of the runs (batches.h).
  static Tokens mixed(std::span<const Tokens> runs, std::span<const double> weights);

  // One of the sequences of mixed().
  struct Source {
    int64_t begin, end;
    double weight;  // as given
  };
  // Empty unless this is mixed() itself: slices have none.
  const std::vector<Source>& sources() const { return sources_; }

  int64_t size() const { return parts_.empty() ? 0 : parts_.back().end; }
  int64_t operator[](int64_t index) const;
  // Fills `ids` with the ids from `begin` on.
  void read(int64_t begin, std::span<int64_t> ids) const;
  Tokens slice(int64_t begin, int64_t end) const;
  // The documents that batches are made of; none if they are made of any consecutive tokens. Slices
  // have none.
  const std::shared_ptr<const Documents>& documents() const { return documents_; }
  Tokens with_documents(std::shared_ptr<const Documents> documents) const;
  // The largest id; -1 if there are none.
  int64_t largest() const;

 private:
  struct Part {
    std::shared_ptr<const void> owner;
    const std::byte* data;
    int width;
    int64_t begin, end;  // in the whole sequence
  };
  void append(const Part& part, int64_t begin, int64_t end);

  std::vector<Part> parts_;
  std::vector<Source> sources_;
  std::shared_ptr<const Documents> documents_;
};

// The source that a fraction from 0 to 1 of all weights falls in. The fraction becomes the one
// within that source.
Tokens::Source source_at(std::span<const Tokens::Source> sources, double& fraction);

// Appends ids in the form that Tokens::of_ids() takes.
void append_ids(std::string& bytes, std::span<const int32_t> ids, int width);

struct Split {
  Tokens train;
  Tokens validation;
  std::vector<std::string> warnings = {};  // about data that were cut or left out
};

// Splits off the last `fraction` of the tokens, but at least one sequence of `context` + 1, for
// validation. Fails if either part would be shorter than that.
Split split(const Tokens& tokens, double fraction, int64_t context, const std::string& source);

}  // namespace binade::data
