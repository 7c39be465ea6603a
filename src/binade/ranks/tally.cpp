#include "binade/ranks/tally.h"

#include <algorithm>
#include <cstring>

#include "binade/base/error.h"

namespace binade::ranks {
namespace {

// Numbers of 8 bytes, one after the other; a list starts with its length.
class Writer {
 public:
  template <class T>
  void one(T value) {
    static_assert(sizeof(T) == 8);
    bytes_.resize(bytes_.size() + 8);
    std::memcpy(bytes_.data() + bytes_.size() - 8, &value, 8);
  }
  template <class T>
  void list(const std::vector<T>& values) {
    one(static_cast<int64_t>(values.size()));
    for (const T value : values) one(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <class T>
  T one() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, 8);
    at_ += 8;
    return value;
  }
  template <class T>
  std::vector<T> list() {
    std::vector<T> values(static_cast<size_t>(one<int64_t>()));
    for (T& value : values) value = one<T>();
    return values;
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

template <class T, class F>
void join(std::vector<T>& all, const std::vector<T>& part, F combine) {
  if (all.empty()) all.resize(part.size());
  if (all.size() != part.size()) {
    fail("ranks", {.argument = "tally",
                   .expected = std::to_string(all.size()) + " numbers from every rank",
                   .found = std::to_string(part.size())});
  }
  for (size_t i = 0; i < all.size(); ++i) all[i] = combine(all[i], part[i]);
}

}  // namespace

StepWhole tally(Communicator& ranks, const StepPart& part) {
  Writer out;
  out.one(ranks.history());
  out.one(ranks.last().number);
  out.one(part.found_inf);
  out.one(part.first_bad);
  out.one(part.stop);
  out.one(part.seconds);
  out.one(part.waited);
  out.list(part.norm_parts);
  out.list(part.losses);
  out.list(part.maxima);
  out.list(part.sums);
  out.list(part.most);
  const uint64_t history = ranks.history();
  const int64_t number = ranks.last().number;
  StepWhole whole;
  const std::vector<std::string> all = ranks.all_gather_text("tally", out.bytes());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Reader in(all[rank]);
    const auto their_history = in.one<uint64_t>();
    const auto their_number = in.one<int64_t>();
    if (their_history != history || their_number != number) {
      fail("ranks", {.argument = "rank " + std::to_string(rank),
                     .expected = "the collectives of rank " + std::to_string(ranks.rank()) + ", " +
                                 std::to_string(number) + " so far",
                     .found = std::to_string(their_number) + ", or others"});
    }
    whole.found_inf = std::max(whole.found_inf, in.one<double>());
    whole.first_bad = std::min(whole.first_bad, in.one<int64_t>());
    whole.stop = std::max(whole.stop, in.one<int64_t>());
    whole.seconds += in.one<double>();
    whole.waited += in.one<double>();
    whole.norm_parts.push_back(in.list<double>());
    whole.losses.push_back(in.list<double>());
    join(whole.maxima, in.list<double>(), [](double a, double b) { return std::max(a, b); });
    join(whole.sums, in.list<int64_t>(), [](int64_t a, int64_t b) { return a + b; });
    join(whole.most, in.list<int64_t>(), [](int64_t a, int64_t b) { return std::max(a, b); });
  }
  return whole;
}

}  // namespace binade::ranks
