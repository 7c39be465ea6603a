#include "binade/ops/create/create.h"

#include "bindings.h"

// New tensors. Random ones draw from the thread's random context, as dropout does.
namespace binade::python {
namespace {

// The next stream of the context, or the stream of an explicit seed.
random::Key key_of(const std::optional<uint64_t>& seed) {
  return seed ? random::Key{*seed, random::stream_id(random::Domain::ops, 0)} : random::next_key();
}

struct FilledEntry {
  const char* name;
  Tensor (*run)(const Shape&, DType, Device);
  const char* doc;
};

constexpr FilledEntry filled_table[] = {
    {"empty", Tensor::empty, "An uninitialized tensor."},
    {"zeros", zeros, "A tensor of zeros."},
    {"ones", ones, "A tensor of ones."},
};

struct RandomEntry {
  const char* name;
  Tensor (*run)(const Shape&, random::Key, DType, Device);
  const char* doc;
};

constexpr RandomEntry random_table[] = {
    {"randn", randn,
     "Standard normal numbers: a function of `seed`, or of manual_seed and the number of draws."},
    {"rand", rand,
     "Uniform numbers in [0, 1): a function of `seed`, or of manual_seed and the number of draws."},
};

}  // namespace

void bind_create(nb::module_& m) {
  const auto default_type = "dtype"_a = DType::f32;
  const auto default_device = "device"_a = Device::cpu();
  for (const FilledEntry& entry : filled_table)
    m.def(entry.name, entry.run, "size"_a, default_type, default_device, ReleaseGil(), entry.doc);
  m.def("full", nb::overload_cast<const Shape&, double, DType, Device>(&full), "size"_a,
        "fill_value"_a, default_type, default_device, ReleaseGil(), "A tensor of one value.");
  m.def("zeros_like", nb::overload_cast<const Tensor&>(&zeros_like), "input"_a, ReleaseGil(),
        "Zeros of x's shape, dtype and device.");
  m.def("ones_like", nb::overload_cast<const Tensor&>(&ones_like), "input"_a, ReleaseGil(),
        "Ones of x's shape, dtype and device.");
  m.def("full_like", nb::overload_cast<const Tensor&, double>(&full_like), "input"_a,
        "fill_value"_a, ReleaseGil(), "One value in x's shape, dtype and device.");
  m.def("linspace", nb::overload_cast<double, double, int64_t, DType, Device>(&linspace), "start"_a,
        "end"_a, "steps"_a, default_type, default_device, ReleaseGil(),
        "`steps` numbers from start to end, equally far apart.");
  m.def("eye", nb::overload_cast<int64_t, std::optional<int64_t>, DType, Device>(&eye), "n"_a,
        "m"_a = nb::none(), default_type, default_device, ReleaseGil(),
        "The identity matrix, n x m.");
  m.def("empty_like", &Tensor::empty_like, "input"_a, ReleaseGil());
  m.def("_arange", nb::overload_cast<int64_t, DType, Device>(&arange), "count"_a, "dtype"_a,
        "device"_a, ReleaseGil());
  for (const RandomEntry& entry : random_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Shape& size, std::optional<uint64_t> seed, DType dtype, Device device) {
          return run(size, key_of(seed), dtype, device);
        },
        "size"_a, nb::kw_only(), "seed"_a = nb::none(), default_type, default_device, ReleaseGil(),
        entry.doc);
  }
  m.def(
      "randint",
      [](int64_t low, int64_t high, const Shape& size, std::optional<uint64_t> seed,
         Device device) { return randint(low, high, size, key_of(seed), device); },
      "low"_a, "high"_a, "size"_a, nb::kw_only(), "seed"_a = nb::none(), default_device,
      ReleaseGil(), "Integers in [low, high), i64; low is 0 if it is not given.");
  m.def(
      "randint",
      [](int64_t high, const Shape& size, std::optional<uint64_t> seed, Device device) {
        return randint(0, high, size, key_of(seed), device);
      },
      "high"_a, "size"_a, nb::kw_only(), "seed"_a = nb::none(), default_device, ReleaseGil());
  m.def(
      "_tensor",
      [](const std::vector<double>& values, const Shape& shape, DType dtype, Device device) {
        return tensor(values, shape, dtype, device);
      },
      ReleaseGil());
  m.def(
      "_integers",
      [](const std::vector<int64_t>& values, const Shape& shape, Device device) {
        return tensor(std::span<const int64_t>(values), shape, device);
      },
      ReleaseGil());
  m.def("begin_step", &random::begin_step, "seed"_a, "step"_a,
        "Sets the random context of this thread's ops: what they draw is a function of seed, step "
        "and the order of the draws.");
}

}  // namespace binade::python
