// Run on several ranks by the tests of ranks: one scenario, named by the first argument.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/base/random.h"
#include "binade/nn/init.h"
#include "binade/nn/language_model.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/adam.h"
#include "binade/ranks/agreement.h"
#include "binade/ranks/host_facts.h"
#include "binade/ranks/sharded.h"
#include "rank_program/exchange_audit.h"

namespace binade::ranks {
namespace {

using Ranks = std::shared_ptr<Communicator>;

// Magnitudes over many binades, so that every order of a sum has its own bits.
float value_of(uint64_t micro, uint64_t parameter, uint64_t element) {
  const float unit = random::uniform(7, micro * 100 + parameter, element) - 0.5f;
  return std::ldexp(unit, static_cast<int>(random::bits(8, micro * 100 + parameter, element) % 20));
}

// Gradients of known values, folded by all ranks, against a plain loop.
void fold(const Ranks& ranks, Fold::Options options, Device device) {
  constexpr int64_t micros = 7;
  const std::vector<int64_t> sizes = {40000, 5, 16385, 1};
  std::vector<Tensor> parameters;
  for (const int64_t size : sizes) {
    parameters.push_back(zeros({size}, DType::f32, device));
    parameters.back().set_requires_grad();
  }
  const Partition partition(parameters, ranks->size(), {}, 30000);
  Fold sum(on_device(ranks, device), partition, parameters, options);
  for (int64_t first = 0; first < micros; first += ranks->size()) {
    const auto leaves = static_cast<int>(std::min<int64_t>(ranks->size(), micros - first));
    sum.begin_round(first == 0, leaves);
    for (size_t i = parameters.size(); ranks->rank() < leaves && i-- > 0;) {
      const Tensor gradient = zeros({sizes[i]}, DType::f32);
      auto* values = gradient.mutable_data<float>();
      for (int64_t k = 0; k < sizes[i]; ++k)
        values[k] =
            value_of(static_cast<uint64_t>(first + ranks->rank()), i, static_cast<uint64_t>(k));
      parameters[i].set_grad(to(gradient, device));
      sum.note_finished(i);
    }
    sum.end_round();
  }
  sum.finish();
  int64_t wrong = 0, checked = 0;
  std::vector<Tensor> sums = sum.sums();
  if (sums.empty())
    for (const Tensor& parameter : parameters) sums.push_back(parameter.grad());
  for (size_t i = 0; i < parameters.size(); ++i) {
    sums[i] = to(sums[i], Device::cpu());
    const Range owned = partition.owned(i, ranks->rank());
    for (int64_t k = 0; k < owned.size(); ++k) {
      float expected = 0;
      double exact = 0, magnitudes = 0;
      for (int64_t micro = 0; micro < micros; ++micro) {
        const Tensor leaf = full(
            {1}, value_of(static_cast<uint64_t>(micro), i, static_cast<uint64_t>(owned.begin + k)),
            DType::f32);
        const Tensor rounded = Tensor::empty({1}, options.wire);
        backend::of(leaf).elementwise.copy(leaf, rounded);
        const auto term = static_cast<float>(rounded.item());
        expected = micro == 0 ? term : expected + term;
        exact += term;
        magnitudes += std::abs(term);
      }
      const float found = sums[i].data<float>()[k];
      // Any order of additions errs by at most this.
      const double bound = micros * 0x1p-24 * magnitudes;
      wrong += options.order == ReduceOrder::any ? !(std::abs(found - exact) <= bound)
                                                 : found != expected;
      ++checked;
    }
  }
  const int64_t mine[] = {wrong, checked};
  std::vector<int64_t> all(2 * static_cast<size_t>(ranks->size()));
  ranks->all_gather("results", std::as_bytes(std::span(mine)),
                    std::as_writable_bytes(std::span(all)),
                    std::vector<int64_t>(static_cast<size_t>(ranks->size()), 16));
  for (size_t i = 2; i < all.size(); ++i) all[i % 2] += all[i];
  if (ranks->rank() == 0) std::printf("%ld wrong of %ld\n", long(all[0]), long(all[1]));
}

// A small model of one's own; prints what must not depend on the number of ranks.
void train(const Ranks& ranks, int stage, Device device) {
  nn::Linear model(24, 1000);
  model.to(device);
  const Partition partition(model.parameters(), ranks->size(), {}, 1);
  optim::AdamW optimizer(model.parameters(),
                         {.lr = 1e-2, .master = {.parts = partition.parts(ranks->rank())}});
  amp::GradScaler scaler(
      {.enabled = true, .init_scale = 0x1p126, .growth_interval = 2, .device = device});
  Sharded sharded(model, optimizer, ranks, partition, {.micro_batches = 5, .stage = stage});
  for (int step = 0; step < 6; ++step) {
    const ShardedStep done = sharded.step(scaler, 0.5, [&](int64_t micro) {
      const Tensor x = to(randn({3, 24}, {1, static_cast<uint64_t>(step * 5 + micro)}), device);
      const Tensor y = model(x);
      return mean(y * y) * 16.0;
    });
    if (ranks->rank() == 0)
      std::printf("%a %a %d %a\n", done.loss, done.gradient_norm, done.applied, scaler.get_scale());
  }
  uint64_t bits = 0;
  const Tensor weight = to(model.weight.detach(), Device::cpu());
  for (int64_t i = 0; i < weight.numel(); ++i) {
    uint32_t one = 0;
    std::memcpy(&one, weight.data<float>() + i, 4);
    bits = bits * 31 + one;
  }
  const StateDict state = sharded.gather(optimizer.state_dict());
  if (ranks->rank() == 0) {
    const Tensor second = to(state.at("0.second"), Device::cpu());
    double moments = 0;
    for (int64_t i = 0; i < second.numel(); ++i) moments += second.data<float>()[i];
    std::printf("%lx %a\n", static_cast<unsigned long>(bits), moments);
  }
}

uint64_t hash_of(const Tensor& tensor) {
  uint64_t bits = 0;
  const auto* bytes = static_cast<const unsigned char*>(tensor.raw_data());
  for (int64_t i = 0; i < tensor.bytes(); ++i) bits = bits * 31 + bytes[i];
  return bits;
}

// A language model whose parameters have owners on several ranks; with f16 parameters the loss
// scale overflows at first. Prints what must depend neither on the ranks nor on the stage.
void language(const Ranks& ranks, int stage, DType dtype, bool recompute, bool split) {
  nn::GPT model({.layers = 3,
                 .width = 96,
                 .heads = 2,
                 .vocab = 300,
                 .context = 8,
                 .activations = nn::Activations::recompute(recompute)},
                Device::cpu(), dtype);
  const Partition partition(model.parameters(), ranks->size(), {}, 60000);
  optim::AdamW optimizer(
      model.parameters(),
      {.lr = 1e-2, .master = {.split_masters = split, .parts = partition.parts(ranks->rank())}});
  amp::GradScaler scaler(
      {.enabled = dtype == DType::f16, .init_scale = 0x1p21, .growth_interval = 2});
  Sharded sharded(model, optimizer, ranks, partition, {.micro_batches = 5, .stage = stage});
  for (int step = 0; step < 6; ++step) {
    const ShardedStep done = sharded.step(scaler, 0.5, [&](int64_t micro) {
      const Tensor tokens = Tensor::empty({2, 8}, DType::i64), next = Tensor::empty_like(tokens);
      for (int64_t i = 0; i < tokens.numel(); ++i) {
        tokens.mutable_data<int64_t>()[i] = (7 * i + 31 * micro + step) % 300;
        next.mutable_data<int64_t>()[i] = (11 * i + 5 * micro) % 300;
      }
      return model.loss(tokens, next);
    });
    if (ranks->rank() == 0)
      std::printf("%a %a %d %a\n", done.loss, done.gradient_norm, done.applied, scaler.get_scale());
  }
  if (stage == 3) {
    // The embeddings, the last norm and this rank's elements of the blocks.
    int64_t expected = 0;
    const auto named = model.named_parameters();
    for (size_t i = 0; i < named.size(); ++i) {
      const int64_t count = named[i].first.starts_with("blocks.")
                                ? partition.owned(i, ranks->rank()).size()
                                : named[i].second.numel();
      expected += count * static_cast<int64_t>(size_of(dtype));
    }
    const int64_t found = memory::allocated(memory::Category::parameters);
    if (found != expected) std::printf("%ld bytes instead of %ld\n", long(found), long(expected));
  }
  double forward = 0;
  const NoGrad no_grad;
  const std::vector<double> losses = sharded.run_forwards(4, [&](int64_t i) {
    const Tensor tokens = full({1, 8}, static_cast<double>(i), DType::i64);
    return model.loss(tokens, tokens);
  });
  // In their order, whatever rank ran them.
  for (size_t i = 0; i < losses.size(); ++i) forward += static_cast<double>(i + 1) * losses[i];
  sharded.gather_weights(Units::Where::first_rank);
  const StateDict state = sharded.gather(optimizer.state_dict());
  if (ranks->rank() != 0) return;
  std::printf("%a\n", forward);
  for (const auto& [name, parameter] : model.named_parameters())
    std::printf("%s %lx\n", name.c_str(), static_cast<unsigned long>(hash_of(parameter)));
  for (const auto& [name, tensor] : state)
    std::printf("%s %lx\n", name.c_str(), static_cast<unsigned long>(hash_of(tensor)));
}

// Layers without a bias under f16 and a recipe. One micro-batch of a step, which one rank runs, has
// gradients that are infinite in f16 until the loss scale has fallen; those of the others are
// small. Every rank says of each step whether it was applied, and its loss scale.
void infinite(const Ranks& ranks, const std::string& recipe) {
  nn::init::restart(5);
  nn::Sequential model{
      std::make_unique<nn::Linear>(nn::LinearConfig{.in = 48, .out = 32, .bias = false}),
      std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 48, .bias = false})};
  const Partition partition(model.parameters(), ranks->size(), {}, 1);
  optim::AdamW optimizer(model.parameters(),
                         {.lr = 1e-3, .master = {.parts = partition.parts(ranks->rank())}});
  amp::GradScaler scaler({.init_scale = 0x1p24});
  Sharded sharded(model, optimizer, ranks, partition, {.micro_batches = 5});
  for (int step = 0; step < 14; ++step) {
    const ShardedStep done = sharded.step(scaler, 0, [&](int64_t micro) {
      const amp::Autocast cast(DType::f16);
      const amp::QuantizedAutocast quantized(amp::parse_recipe(recipe));
      const Tensor x = randn({8, 48}, {2, static_cast<uint64_t>(step * 5 + micro)});
      return sum(model(x)) * (micro == 1 ? 1.0 : 0x1p-14);
    });
    const std::string own = fmt::format("{} {}", done.applied, scaler.get_scale());
    for (const std::string& other : ranks->all_gather_text("step", own))
      if (other != own) std::printf("%s and %s\n", own.c_str(), other.c_str());
    if (ranks->rank() == 0) std::printf("%s\n", own.c_str());
  }
  if (ranks->rank() != 0) return;
  for (const auto& [name, tensor] : model.state_dict())
    std::printf("%s %lx\n", name.c_str(), static_cast<unsigned long>(hash_of(tensor)));
}

void gather_something(Communicator& ranks, const std::string& name) {
  const int64_t mine = ranks.rank();
  std::vector<int64_t> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather(name, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   std::vector<int64_t>(all.size(), 8));
}

// What the ranks agree on: each has another bad parameter and another signal. `from`: the rank that
// asks the run to end.
void agreement(const Ranks& ranks, int from) {
  const int rank = ranks->rank();
  const double r = rank, bad[] = {9, 4, 6};
  const std::vector<int64_t> sizes(1, Partition::chunk);
  const Partition partition(sizes, ranks->size(), {}, 1);
  Tally tally(ranks, partition, sizes.size(), ranks->size(), Device::cpu());
  const auto list = [](const std::vector<double>& values) {
    return tensor(values, {std::ssize(values)}, DType::f64);
  };
  const StepNumbers all =
      tally.exchange({.norm_parts = list({}),
                      .found_inf = full({1}, rank == from ? 1 : 0, DType::f32),
                      .first_bad = full({1}, bad[rank], DType::i32),
                      .losses = {full({}, 10 + r, DType::f32)},
                      .maxima = list({rank == 1 ? 8.0 : 2.0, rank == 0 ? 7.0 : 3.0}),
                      .sums = list({r + 1}),
                      .most = list({rank == 0 ? 5.0 : 3.0})});
  const HostFacts facts =
      exchange(*ranks, {.stop = rank == from ? 15 : 0, .seconds = 1 + r, .waited = 0.25 * (1 + r)});
  std::string losses;
  for (const Tensor& loss : all.losses) losses += fmt::format("{} ", loss.item());
  const auto at = [](const Tensor& x, int64_t i) { return x.data<double>()[i]; };
  const std::string text = fmt::format(
      "bad {} stop {} inf {} losses {}maxima {} {} sum {} most {} seconds {} waited {}\n",
      all.first_bad.item(), facts.stop, all.found_inf.item(), losses, at(all.maxima, 0),
      at(all.maxima, 1), at(all.sums, 0), at(all.most, 0), facts.seconds, facts.waited);
  // All ranks have the same, and one says it.
  for (const std::string& other : ranks->all_gather_text("text", text))
    if (other != text) std::printf("rank %d found %s", rank, text.c_str());
  if (rank == 0) std::printf("%s", text.c_str());
}

// The last rank does not do as the others do.
void fault(const Ranks& ranks, const std::string& kind) {
  ranks->set_timeout(2);
  ranks->set_phase("step 12");
  const bool faulty = ranks->rank() == ranks->size() - 1;
  gather_something(*ranks, "first");
  // Not stopped by a signal, which confuses the mpirun of Open MPI 4.1.
  if (kind == "hangs" && faulty) ::alarm(10);  // where no launcher ends it with the others
  while (kind == "hangs" && faulty) ::pause();
  if (kind == "dies" && faulty) ::raise(SIGKILL);
  if (kind == "leaves" && faulty) return;
  if (kind == "throws" && faulty) ranks->abort("no more disk", 2);
  if (kind == "other" && faulty) {
    ranks->broadcast_text("something else", "");
    ranks->broadcast_text("something else", "");
  }
  if (kind == "differs")
    agree(*ranks, [&] { return AgreedFacts{{"version", faulty ? "2" : "1"}}; });
  if (kind == "fails" || kind == "fails_alike") {
    together(*ranks, [&] {
      if (faulty || kind == "fails_alike")
        fail("data", {.argument = "train.bin", .found = "damage"});
    });
  }
  gather_something(*ranks, "second");
}

}  // namespace
}  // namespace binade::ranks

int main(int argc, char** argv) {
  using namespace binade::ranks;
  const std::string scenario = argc > 1 ? argv[1] : "";
  const std::shared_ptr<Communicator> ranks = init();
  try {
    const bool on_gpu = argc > 2 && std::string(argv[2]) == "cuda";
    const binade::Device device =
        on_gpu ? device_of_rank(*ranks, binade::Device::cuda()) : binade::Device::cpu();
    if (scenario == "fold") fold(ranks, {}, device);
    if (scenario == "fold16") fold(ranks, {.wire = binade::DType::bf16}, device);
    if (scenario == "fold_any") fold(ranks, {.order = ReduceOrder::any}, device);
    if (scenario == "stage1") train(ranks, 1, device);
    if (scenario == "stage2") train(ranks, 2, device);
    if (scenario == "language") {
      const std::string type = argv[3];
      language(ranks, std::atoi(argv[2]),
               type == "f32"    ? binade::DType::f32
               : type == "bf16" ? binade::DType::bf16
                                : binade::DType::f16,
               std::string(argv[4]) == "recompute", argc > 5 && std::string(argv[5]) == "split");
    }
    if (scenario == "infinite") infinite(ranks, argv[2]);
    if (scenario == "agreement") agreement(ranks, std::atoi(argv[2]));
    if (scenario == "fault") fault(ranks, argv[2]);
    if (scenario == "audit") audit_exchanges(ranks, std::atof(argv[2]), std::atoi(argv[3]) != 0);
  } catch (const FailedElsewhere&) {
    for (;;) ranks->await_end(60);  // rank 0 ends all: mpirun would not let it if this one ended
  } catch (const std::exception& error) {
    ranks->abort(error.what(), 2);
  }
  std::fflush(stdout);
  ranks->finalize();
  return 0;
}
