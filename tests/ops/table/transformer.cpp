#include <limits>

#include "binade/base/random.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;

// One query and the keys it sees: softmax of scaled dot products, then the weighted sum of values.
void attend(Line q, const std::vector<std::vector<Real>>& keys,
            const std::vector<std::vector<Real>>& values, std::span<const Real> biases,
            double scale, FunctionRef<void(int64_t, Real)> write) {
  std::vector<Real> scores;
  double most = -std::numeric_limits<double>::infinity();
  for (const auto& key : keys) {
    const Real score = dot(q, key) * Real(scale);
    scores.push_back(biases.empty() ? score : score + biases[scores.size()]);
    most = std::max(most, scores.back().value);
  }
  for (Real& score : scores) score = exp(score - Real(most));
  const Real total = sum(scores);
  // A kernel may multiply probabilities in the tensors' type.
  for (Real& score : scores) score = stored(score);
  for (size_t d = 0; d < q.size(); ++d) {
    std::vector<Real> column;
    for (const auto& value : values) column.push_back(value[d]);
    // The backward starts from the result in memory.
    write(static_cast<int64_t>(d), keys.empty() ? Real(0) : stored(dot(scores, column) / total));
  }
}

std::vector<Real> row(const Array& x, int64_t at, int64_t width) {
  return {x.values.begin() + at, x.values.begin() + at + width};
}

// A boolean mask hides keys, another one is added to the scores.
struct ReferenceMask {
  const Array* values = nullptr;
  bool is_boolean = false;
};

// q [b, h, t, d], k and v [b, g, s, d].
Array attention(const Array& q, const Array& k, const Array& v, bool causal, double scale,
                ReferenceMask mask = {}) {
  const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), dim = q.size(3),
                groups = k.size(1), keys = k.size(2);
  Array y(q.shape);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t group = b * groups + h / (heads / groups);
      for (int64_t t = 0; t < queries; ++t) {
        std::vector<std::vector<Real>> seen_keys, seen_values;
        std::vector<Real> biases;
        for (int64_t s = 0; s < keys; ++s) {
          if (causal && s > t + keys - queries) continue;
          if (mask.values != nullptr) {
            const Real entry = broadcast_at(*mask.values, {b, h, t, s});
            if (mask.is_boolean && entry.value == 0) continue;
            if (!mask.is_boolean) biases.push_back(entry);
          }
          seen_keys.push_back(row(k, (group * keys + s) * dim, dim));
          seen_values.push_back(row(v, (group * keys + s) * dim, dim));
        }
        const int64_t at = ((b * heads + h) * queries + t) * dim;
        attend(row(q, at, dim), seen_keys, seen_values, biases, scale,
               [&](int64_t d, const Real& value) { y[at + d] = value; });
      }
    }
  }
  return y;
}

// Rows `begin` .. `end` of x [rows, heads, dim] as [1, heads, end - begin, dim].
Array sequence(const Array& x, int64_t begin, int64_t end) {
  Array y({1, x.size(1), end - begin, x.size(2)});
  for_each_index(y.shape, [&](const Shape& i) { y(i) = x({begin + i[2], i[1], i[3]}); });
  return y;
}

// q [t, h, d], k and v [s, g, d], one sequence after the other.
Array packed_sequences(const Array& q, const Array& k, const Array& v,
                       const std::vector<int64_t>& queries, const std::vector<int64_t>& keys,
                       bool causal, double scale) {
  Array y(q.shape);
  for (size_t i = 0; i + 1 < queries.size(); ++i) {
    const Array out =
        attention(sequence(q, queries[i], queries[i + 1]), sequence(k, keys[i], keys[i + 1]),
                  sequence(v, keys[i], keys[i + 1]), causal, scale);
    for_each_index(out.shape, [&](const Shape& at) {
      y({queries[i] + at[2], at[1], at[3]}) = out(at);
    });
  }
  return y;
}

double scale_of(const AttentionOptions& options, int64_t dim) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
}

using Attention = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&);
using VarlenAttention = Tensor (*)(const Tensor&, const Tensor&, const Tensor&,
                                   const SequenceOffsets&, const AttentionOptions&);
using PackedAttention = Tensor (*)(const Tensor&, int64_t, int64_t, const AttentionOptions&);
using Rope = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t);

Description attentions(Attention f) {
  const auto make = [=](const std::string& name, const Shape& q, int64_t kv_heads, int64_t keys,
                        AttentionOptions options) {
    const Shape k{q[0], kv_heads, keys, q[3]};
    return Case{name,
                {{q}, {k}, {k}},
                call3([=](const Tensor& a, const Tensor& b, const Tensor& c) {
                  return f(a, b, c, options);
                }),
                reference3([=](const Array& a, const Array& b, const Array& c) {
                  return attention(a, b, c, options.causal, scale_of(options, q[3]));
                })};
  };
  const auto masked = [=](const std::string& name, const Shape& q, int64_t keys, const Input& mask,
                          bool causal) {
    Case test = make(name, q, q[1], keys, {});
    test.inputs.push_back(mask);
    test.call = [=](std::span<const Tensor> x) {
      return std::vector<Tensor>{f(x[0], x[1], x[2], {.causal = causal, .mask = x[3]})};
    };
    test.reference = [=](Arrays x) {
      return std::vector<Array>{attention(x[0], x[1], x[2], causal, scale_of({}, q[3]),
                                          {&x[3], mask.kind == Input::Kind::boolean})};
    };
    return test;
  };
  return {
      .op = Op::scaled_dot_product_attention,
      .cases = {make("empty", {0, 2, 3, 4}, 2, 3, {}), make("no_queries", {1, 2, 0, 4}, 2, 3, {}),
                make("one", {1, 1, 1, 1}, 1, 1, {}), make("odd", {2, 3, 5, 7}, 3, 5, {}),
                make("causal", {1, 2, 5, 3}, 2, 5, {.causal = true, .scale = {}}),
                make("grouped", {1, 4, 3, 5}, 2, 3, {.causal = true, .scale = {}}),
                make("longer_keys", {1, 2, 3, 4}, 1, 7, {.causal = true, .scale = {}}),
                make("shorter_keys", {1, 2, 5, 4}, 2, 3, {.causal = true, .scale = {}}),
                make("scaled", {1, 1, 3, 5}, 1, 4, {.causal = false, .scale = 0.7}),
                masked("masked", {2, 3, 5, 7}, 4, boolean({2, 1, 5, 4}), false),
                masked("masked_keys", {2, 2, 3, 4}, 5, boolean({2, 1, 1, 5}), true),
                masked("biased", {2, 3, 5, 3}, 4, {{3, 5, 4}}, false),
                masked("biased_causal", {1, 2, 3, 5}, 3, constant({3}), true)},
      .large = make("large", {2, 4, 67, 24}, 2, 67, {.causal = true, .scale = {}}),
      .narrow_gradients = true};
}

Description varlen_attentions(VarlenAttention f) {
  const auto make = [=](const std::string& name, const Shape& q, const Shape& k,
                        const std::vector<int64_t>& queries, const std::vector<int64_t>& keys,
                        AttentionOptions options) {
    return Case{name,
                {{q}, {k}, {k}},
                call3([=](const Tensor& a, const Tensor& b, const Tensor& c) {
                  return f(a, b, c, {queries, keys}, options);
                }),
                reference3([=](const Array& a, const Array& b, const Array& c) {
                  return packed_sequences(a, b, c, queries, keys.empty() ? queries : keys,
                                          options.causal, scale_of(options, q[2]));
                })};
  };
  const AttentionOptions causal{.causal = true};
  return {.op = Op::varlen_attention,
          .cases = {make("empty", {0, 2, 3}, {0, 2, 3}, {0, 0}, {}, causal),
                    make("one", {1, 1, 1}, {1, 1, 1}, {0, 1}, {}, causal),
                    make("odd", {7, 3, 5}, {7, 3, 5}, {0, 3, 4, 7}, {}, causal),
                    make("grouped", {6, 4, 3}, {6, 2, 3}, {0, 5, 5, 6}, {}, causal),
                    make("seeing_all", {5, 2, 3}, {5, 1, 3}, {0, 2, 5}, {}, {.scale = 0.6}),
                    make("cross", {5, 2, 3}, {7, 2, 3}, {0, 2, 5}, {0, 4, 7}, {}),
                    make("no_keys", {3, 2, 3}, {3, 2, 3}, {0, 2, 3}, {0, 0, 3}, causal),
                    make("no_queries", {3, 2, 3}, {5, 2, 3}, {0, 0, 3}, {0, 2, 5}, causal)},
          .large = make("large", {300, 4, 24}, {300, 2, 24}, {0, 3, 90, 91, 300}, {}, causal),
          .narrow_gradients = true};
}

Description packed_attentions(PackedAttention f) {
  const auto make = [=](const std::string& name, int64_t batch, int64_t tokens, int64_t heads,
                        int64_t kv_heads, int64_t dim, AttentionOptions options) {
    const int64_t width = (heads + 2 * kv_heads) * dim;
    return Case{name,
                {{{batch, tokens, width}}},
                call1([=](const Tensor& x) { return f(x, heads, kv_heads, options); }),
                reference1([=](const Array& x) {
                  const auto part = [&](int64_t first, int64_t count) {
                    Array y({batch, count, tokens, dim});
                    for_each_index(y.shape, [&](const Shape& i) {
                      y(i) = x({i[0], i[2], (first + i[1]) * dim + i[3]});
                    });
                    return y;
                  };
                  if (!options.documents.empty()) {
                    const auto rows = [&](int64_t first, int64_t count) {
                      Array y({batch * tokens, count, dim});
                      for_each_index(y.shape, [&](const Shape& i) {
                        y(i) = x[i[0] * width + (first + i[1]) * dim + i[2]];
                      });
                      return y;
                    };
                    return reshaped(
                        packed_sequences(rows(0, heads), rows(heads, kv_heads),
                                         rows(heads + kv_heads, kv_heads), options.documents,
                                         options.documents, options.causal, scale_of(options, dim)),
                        {batch, tokens, heads * dim});
                  }
                  const Array out = attention(part(0, heads), part(heads, kv_heads),
                                              part(heads + kv_heads, kv_heads), options.causal,
                                              scale_of(options, dim));
                  Array y({batch, tokens, heads * dim});
                  for_each_index(out.shape, [&](const Shape& i) {
                    y({i[0], i[2], i[1] * dim + i[3]}) = out(i);
                  });
                  return y;
                })};
  };
  const AttentionOptions causal{.causal = true, .scale = {}};
  return {.op = Op::packed_attention,
          .cases = {make("empty", 0, 3, 2, 2, 3, causal), make("no_tokens", 1, 0, 2, 2, 3, causal),
                    make("one", 1, 1, 1, 1, 1, causal), make("odd", 2, 5, 3, 3, 3, causal),
                    make("grouped", 1, 5, 4, 2, 3, causal),
                    make("seeing_all", 1, 5, 2, 1, 5, {.causal = false, .scale = 0.6}),
                    make("documents", 2, 5, 2, 1, 3, {.causal = true, .documents = {0, 3, 7, 10}})},
          .large = make("large", 2, 67, 4, 2, 24, causal),
          .narrow_gradients = true,
          .no_single = "it holds queries, keys and values"};
}

// The first `rotated` heads are rotated; channel i pairs with channel i + dim / 2.
Description ropes(Rope f) {
  const auto make = [=](const std::string& name, const Shape& x, int64_t start, int64_t rotated) {
    const int64_t positions = start + x[1] + 2, half = x[3] / 2;
    return Case{name,
                {{x}},
                call1([=](const Tensor& t) {
                  const auto [cosine, sine] = rope_tables(positions, x[3], 100, t.device());
                  return f(t, cosine, sine, start, rotated);
                }),
                reference1([=](const Array& a) {
                  Array y = a;
                  for_each_index(x, [&](const Shape& i) {
                    if ((rotated >= 0 && i[2] >= rotated) || i[3] >= half) return;
                    const auto frequency = static_cast<float>(std::pow(
                        100.0, -2.0 * static_cast<double>(i[3]) / static_cast<double>(x[3])));
                    // The angle is rounded to f32 and so are its cosine and sine: the tables' own
                    // precision.
                    const float angle = static_cast<float>(start + i[1]) * frequency;
                    const Real c(std::cos(angle)), s(std::sin(angle));
                    Shape other = i;
                    other[3] += half;
                    y(i) = a(i) * c - a(other) * s;
                    y(other) = a(other) * c + a(i) * s;
                  });
                  return y;
                })};
  };
  return {.op = Op::rope,
          .cases = {make("empty", {0, 3, 2, 4}, 0, -1), make("no_tokens", {1, 0, 2, 4}, 0, -1),
                    make("one", {1, 1, 1, 2}, 1, -1), make("odd", {2, 5, 3, 6}, 0, -1),
                    make("started", {1, 3, 2, 10}, 4, -1), make("some_heads", {1, 5, 3, 4}, 2, 2),
                    make("no_heads", {1, 2, 3, 4}, 0, 0)},
          .large = make("large", {3, 67, 5, 24}, 3, 4),
          .narrow_gradients = true,
          .no_single = "a head has an even number of channels"};
}

Description swiglus(Tensor (*f)(const Tensor&)) {
  const auto make = [=](const std::string& name, const Shape& x) {
    return Case{name, {{x, {.low = -3, .high = 3}}}, call1(f), reference1([](const Array& a) {
                  Shape shape = a.shape;
                  const int64_t width = shape[shape.rank() - 1] /= 2;
                  Array y(shape);
                  for (int64_t i = 0; i < y.numel(); ++i) {
                    const int64_t at = i / width * 2 * width + i % width;
                    y[i] = a[at] * sigmoid(a[at]) * a[at + width];
                  }
                  return y;
                })};
  };
  return {.op = Op::swiglu,
          .cases = {make("empty", {0, 4}), make("no_width", {3, 0}), make("two", {2}),
                    make("odd", {3, 14}), make("deep", {2, 3, 10})},
          .large = make("large", {211, 262}),
          .narrow_gradients = true,
          .no_single = "its last axis is even"};
}

// The mask is a pure function of the random context and the element's index.
Description dropouts() {
  const auto make = [](const std::string& name, const Shape& x, double p) {
    return Case{name,
                {{x}},
                call1([=](const Tensor& t) {
                  random::begin_step(7, 3);
                  return dropout(t, p);
                }),
                reference1([=](const Array& a) {
                  random::begin_step(7, 3);
                  const random::Key key = random::next_key();
                  Array y(a.shape);
                  for (int64_t i = 0; i < a.numel(); ++i) {
                    const bool kept = static_cast<double>(random::uniform(
                                          key.seed, key.stream, static_cast<uint64_t>(i))) >= p;
                    y[i] = kept ? a[i] * Real(1 / (1 - p)) : times_sign(a[i], 0);
                  }
                  return y;
                })};
  };
  return {.op = Op::dropout,
          .cases = {make("empty", {0, 3}, 0.5), make("one", {1}, 0.25), make("odd", {3, 7}, 0.25),
                    make("deep", {2, 3, 5}, 0.75), make("all", {3, 5}, 1)},
          .large = make("large", {211, 307}, 0.25),
          .narrow_gradients = true};
}

}  // namespace

std::vector<Description> transformer_ops() {
  return {attentions(scaled_dot_product_attention),
          packed_attentions(packed_attention),
          varlen_attentions(varlen_attention),
          ropes(rope),
          swiglus(swiglu),
          dropouts()};
}

std::vector<Description> transformer_composites() {
  return {attentions(scaled_dot_product_attention_composite),
          packed_attentions(packed_attention_composite),
          varlen_attentions(varlen_attention_composite), ropes(rope_composite),
          swiglus(swiglu_composite)};
}

}  // namespace binade::optable
