#include "binade/data/data_loader.h"

#include "bindings.h"

namespace binade::python {
namespace {

nb::object sample_object(const data::Sample& sample) {
  nb::list list;
  for (const Tensor& one : sample) list.append(nb::cast(one));
  return list;
}

// A dataset in Python: get(index) returns a list of tensors.
class PythonDataset : public data::Dataset {
 public:
  PythonDataset(int64_t size, nb::handle get) : size_(size), get_(get) {}

  int64_t size() const override { return size_; }
  data::Sample get(int64_t index) const override {
    const nb::gil_scoped_acquire gil;
    return nb::cast<data::Sample>(get_.get()(index));
  }

 private:
  int64_t size_;
  SharedObject get_;
};

data::Collate collate_with(nb::handle function) {
  const SharedObject held(function);
  return [held](const std::vector<data::Sample>& samples) {
    const nb::gil_scoped_acquire gil;
    nb::list list;
    for (const data::Sample& sample : samples) list.append(sample_object(sample));
    return nb::cast<data::Sample>(held.get()(list));
  };
}

// A loader that ends its workers, which may wait for the GIL, without it.
class PythonLoader {
 public:
  PythonLoader(int64_t size, nb::handle get, const data::DataLoaderOptions& options)
      : loader_(std::make_unique<data::DataLoader>(std::make_shared<PythonDataset>(size, get),
                                                   options)) {}
  ~PythonLoader() {
    const nb::gil_scoped_release no_gil;
    loader_.reset();
  }
  PythonLoader(const PythonLoader&) = delete;
  PythonLoader& operator=(const PythonLoader&) = delete;

  data::DataLoader& loader() const { return *loader_; }

 private:
  std::unique_ptr<data::DataLoader> loader_;
};

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<PythonLoader>(m, "_DataLoader")
      .def(
          "__init__",
          [](PythonLoader* self, int64_t size, nb::handle get, nb::handle collate, int64_t batch,
             bool shuffle, uint64_t seed, bool drop_last, int workers, int64_t prefetch) {
            new (self) PythonLoader(
                size, get,
                {.batch = batch,
                 .shuffle = shuffle,
                 .seed = seed,
                 .drop_last = drop_last,
                 .workers = workers,
                 .prefetch = prefetch,
                 .collate = collate.is_none() ? data::stack_samples : collate_with(collate)});
          },
          "size"_a, "get"_a, "collate"_a.none(), "batch"_a, "shuffle"_a, "seed"_a, "drop_last"_a,
          "workers"_a, "prefetch"_a)
      .def("size", [](const PythonLoader& self) { return self.loader().size(); })
      .def(
          "next", [](const PythonLoader& self) { return self.loader().next(); }, ReleaseGil())
      .def("position",
           [](const PythonLoader& self) {
             const auto position = self.loader().position();
             return std::pair(position.epoch, position.batch);
           })
      .def(
          "seek",
          [](const PythonLoader& self, int64_t epoch, int64_t batch) {
            self.loader().seek({.epoch = epoch, .batch = batch});
          },
          ReleaseGil());
}

}  // namespace binade::python
