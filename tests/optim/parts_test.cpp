// Optimizers that update a part of each parameter's elements: together, the parts are the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "binade/base/error.h"
#include "binade/formats/dynamic_code.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/adafactor.h"
#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/lion.h"
#include "binade/optim/muon.h"
#include "binade/optim/nadam.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/sgd.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t parts_elements = 9000, parts_middle = 16 * formats::dynamic_block;

struct PartsKind {
  const char* name;
  DType parameter;
  std::function<std::unique_ptr<Optimizer>(const Tensor&, const MasterOptions&)> make;
};

std::vector<PartsKind> parts_kinds() {
  return {
      {"SGD", DType::f32,
       [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<SGD>(std::vector{p},
                                      SgdOptions{.lr = 1e-2, .momentum = 0.9, .master = master});
       }},
      {"AdamW with master weights", DType::bf16,
       [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<AdamW>(std::vector{p}, AdamOptions{.master = master});
       }},
      {"AdamW with 8-bit moments", DType::f32,
       [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<AdamW>(std::vector{p},
                                        AdamOptions{.moments = DType::u8, .master = master});
       }},
      {"Lion", DType::bf16,
       [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<Lion>(
             std::vector{p}, LionOptions{.lr = 1e-2, .weight_decay = 0.1, .master = master});
       }},
      {"NAdam", DType::bf16,
       [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<NAdam>(std::vector{p}, NadamOptions{.lr = 1e-2, .master = master});
       }},
      {"RMSprop", DType::f32,
       [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<RMSprop>(
             std::vector{p}, RmspropOptions{.momentum = 0.9, .centered = true, .master = master});
       }},
      {"Adagrad", DType::f32, [](const Tensor& p, const MasterOptions& master) {
         return std::make_unique<Adagrad>(std::vector{p}, AdagradOptions{.master = master});
       }}};
}

Tensor parts_parameter(DType dtype) {
  Tensor parameter = cast(randn({parts_elements}, {3, 0}), dtype);
  return parameter.set_requires_grad();
}

Tensor elements_of(const Tensor& x, const Part& part) {
  return x.strided({part.count}, {1}, x.offset() + part.begin);
}

bool have_same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.bytes() != b.bytes()) return false;
  // The data of nothing may be a null pointer.
  return a.bytes() == 0 ||
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.bytes())) == 0;
}

TEST(Parts, UpdateAsTheWhole) {
  const Part parts[] = {{0, parts_middle}, {parts_middle, parts_elements - parts_middle}};
  for (const PartsKind& kind : parts_kinds()) {
    SCOPED_TRACE(kind.name);
    for (const Part& part : parts) {
      const Tensor own = parts_parameter(kind.parameter);
      const auto optimizer = kind.make(own, {.parts = {part}});
      const Tensor again = parts_parameter(kind.parameter);
      const auto loaded = kind.make(again, {.parts = {part}});
      const Tensor whole = parts_parameter(kind.parameter);
      const auto reference = kind.make(whole, {});
      for (int step = 0; step < 3; ++step) {
        const Tensor gradient = randn({parts_elements}, {4, static_cast<uint64_t>(step)});
        whole.set_grad(gradient);
        reference->step();
        optimizer->use_gradients({elements_of(gradient, part)});
        optimizer->step();
        // A state that was saved whole continues in parts.
        if (step == 1) loaded->load_state_dict(reference->state_dict());
        if (step == 1) copy_(again.detach(), whole.detach());
        loaded->use_gradients({elements_of(gradient, part)});
        if (step == 2) loaded->step();
      }
      const Tensor result = elements_of(whole, part);
      EXPECT_TRUE(have_same_bits(elements_of(own, part), result));
      EXPECT_TRUE(have_same_bits(elements_of(again, part), result));
      for (const auto& [name, tensor] : reference->state_dict()) {
        if (name.ends_with("steps")) continue;
        const Part of_state{state_elements(name, part.begin), state_elements(name, part.count)};
        EXPECT_TRUE(have_same_bits(optimizer->state_dict().at(name), elements_of(tensor, of_state)))
            << name;
      }
    }
  }
}

// The parameter's own memory is not read or written.
TEST(Parts, UpdateShardsInsteadOfTheParameter) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Part part{parts_middle, parts_elements - parts_middle};
    const Tensor whole = parts_parameter(dtype), own = parts_parameter(dtype);
    AdamW expected({whole}), optimizer({own}, {.master = {.parts = {part}}});
    const Tensor shard = clone(elements_of(own.detach(), part));
    optimizer.use_shards({shard});
    const Tensor before = clone(own.detach());
    const uint64_t version = own.version();
    const Tensor gradient = randn({parts_elements}, {5, 0});
    whole.set_grad(gradient);
    optimizer.use_gradients({elements_of(gradient, part)});
    expected.step();
    optimizer.step();
    EXPECT_TRUE(have_same_bits(shard, elements_of(whole, part)));
    EXPECT_TRUE(have_same_bits(own, before));
    EXPECT_NE(own.version(), version);  // casts of the old values are outdated
  }
}

// Muon's matrices have one owner each, beside elements of AdamW's parameters that owners share.
TEST(Parts, MuonUpdatesWholeMatrices) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool split : {false, true}) {
      const auto parameters = [&] {
        std::vector<Tensor> result = {cast(randn({24, 40}, {6, 0}), dtype),
                                      cast(randn({50, 20}, {6, 1}), dtype),
                                      cast(randn({300}, {6, 2}), dtype)};
        for (Tensor& one : result) one.set_requires_grad();
        return result;
      };
      const auto make = [&](const std::vector<Tensor>& p, std::vector<Part> parts) {
        const MasterOptions master{.split_masters = split, .parts = std::move(parts)};
        return std::make_unique<Muon>(
            std::vector<MuonGroup>{{{p[0], p[1]}, {.lr = 1e-2, .master = master}}},
            std::vector<AdamGroup>{{{p[2]}, {.lr = 1e-2, .master = master}}});
      };
      // The second matrix, the first one, and a part of the vector each.
      const std::vector<Part> owners[] = {{{0, 0}, {0, 1000}, {0, 100}},
                                          {{0, 960}, {0, 0}, {100, 200}}};
      for (const std::vector<Part>& parts : owners) {
        const std::vector<Tensor> own = parameters(), whole = parameters();
        const auto optimizer = make(own, parts), reference = make(whole, {});
        for (uint64_t step = 0; step < 3; ++step) {
          std::vector<Tensor> gradients;
          for (size_t i = 0; i < whole.size(); ++i) {
            const Tensor gradient = randn(whole[i].shape(), {7 + step, i});
            whole[i].set_grad(gradient);
            gradients.push_back(elements_of(gradient, parts[i]));
          }
          optimizer->use_gradients(gradients);
          reference->step();
          optimizer->step();
        }
        const StateDict expected = reference->state_dict(), found = optimizer->state_dict();
        for (size_t i = 0; i < whole.size(); ++i) {
          EXPECT_TRUE(
              have_same_bits(elements_of(own[i], parts[i]), elements_of(whole[i], parts[i])));
          const std::string entry = std::to_string(i) + ".first";
          EXPECT_TRUE(have_same_bits(found.at(entry), elements_of(expected.at(entry), parts[i])));
          // What others own is left as it was.
          const Part rest{parts[i].count == 0 ? 0 : parts[i].begin + parts[i].count,
                          parts[i].count == 0 ? own[i].numel() : 0};
          EXPECT_TRUE(
              have_same_bits(elements_of(own[i], rest), elements_of(parameters()[i], rest)));
        }
        // A state that was saved whole continues in parts.
        const std::vector<Tensor> again = parameters();
        const auto loaded = make(again, parts);
        loaded->load_state_dict(expected);
        for (const auto& [entry, tensor] : found)
          EXPECT_TRUE(have_same_bits(loaded->state_dict().at(entry), tensor)) << entry;
      }
    }
  }
}

TEST(Parts, RefusesPartsOfMuonsMatrices) {
  const Tensor w = randn({24, 40}, {6, 0}).set_requires_grad();
  EXPECT_THAT(test::error_of([&] {
                Muon({w}, {.master = {.parts = {{0, 480}}}});
              }),
              HasSubstr("parts: expected all or none of [24, 40] f32"));
}

TEST(Parts, RefusesUpdatesThatNeedAllElements) {
  const Tensor w = parts_parameter(DType::f32);
  const MasterOptions half{.parts = {{0, parts_middle}}};
  EXPECT_THAT(test::error_of([&] { Adafactor({w}, {.master = half}); }),
              HasSubstr("parts: expected an elementwise update"));
  EXPECT_THAT(test::error_of([&] {
                AdamW({w}, {.moments = DType::u8, .master = {.parts = {{100, 5000}}}});
              }),
              HasSubstr("whole blocks of 8-bit moments"));
  AdamW adam({w}, {.master = half});
  EXPECT_THROW(adam.use_shards({}), Error);
  EXPECT_THROW(adam.use_shards({zeros({3})}), Error);
}

}  // namespace
}  // namespace binade::optim
