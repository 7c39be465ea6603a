#include "binade/backend/cuda/transfer.h"

#include <array>
#include <cstring>
#include <vector>

#include "binade/backend/backend.h"
#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda {
namespace {

// A pinned buffer and the moment its last use on the device ends.
struct Pinned {
  explicit Pinned(size_t bytes) {
    check(cudaMallocHost(&data, bytes), "cudaMallocHost");
    check(cudaEventCreateWithFlags(&used, cudaEventDisableTiming), "cudaEventCreate");
  }
  void record() const { check(cudaEventRecord(used, stream()), "cudaEventRecord"); }
  void wait() const { wait_for(used); }

  void* data = nullptr;
  cudaEvent_t used = nullptr;
};

constexpr size_t staged_bytes = size_t{4} << 20;

// Buffers taken in turn: with several steps' batches between two uses, taking one never waits.
// Never freed: the driver may be gone when static objects end.
Pinned& next_stage() {
  thread_local std::array<Pinned*, 8> stages{};
  thread_local size_t next = 0;
  Pinned*& stage = stages[next++ % stages.size()];
  if (stage == nullptr) {
    stage = new Pinned(staged_bytes);
  } else {
    stage->wait();
  }
  return *stage;
}

// Slots of one element each, used again when their number was read.
std::vector<Pinned*>& free_slots() {
  thread_local auto& slots = *new std::vector<Pinned*>();
  return slots;
}

void upload(const void* from, void* to, size_t bytes) {
  if (bytes > staged_bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream()), "copy to the GPU");
    return;
  }
  const Pinned& stage = next_stage();
  std::memcpy(stage.data, from, bytes);
  check(cudaMemcpyAsync(to, stage.data, bytes, cudaMemcpyHostToDevice, stream()),
        "copy to the GPU");
  stage.record();
}

}  // namespace

void transfer(const Tensor& x, const Tensor& y) {
  const auto bytes = static_cast<size_t>(x.bytes());
  if (bytes == 0) return;
  activate(x.device().is_cuda() ? x.device() : y.device());
  if (capturing()) {  // each launch would copy the host's bytes of this moment
    fail("transfer", {.argument = "x",
                      .expected = "no copy between host and GPU in recorded work",
                      .found = describe(x) + " to " + to_string(y.device())});
  }
  if (x.device().is_cpu()) return upload(x.raw_data(), y.raw_data(), bytes);
  check(cudaMemcpyAsync(y.raw_data(), x.raw_data(), bytes, cudaMemcpyDefault, stream()),
        "copy from the GPU");
  synchronize();
}

struct AsyncReadback::Slot {
  Pinned* pinned = nullptr;
  DType dtype = DType::f32;

  ~Slot() { free_slots().push_back(pinned); }
};

AsyncReadback::AsyncReadback(const Tensor& scalar) : slot_(std::make_shared<Slot>()) {
  activate(scalar.device());
  if (free_slots().empty()) {
    slot_->pinned = new Pinned(sizeof(double));
  } else {
    slot_->pinned = free_slots().back();
    free_slots().pop_back();
  }
  slot_->dtype = scalar.dtype();
  check(cudaMemcpyAsync(slot_->pinned->data, scalar.raw_data(), size_of(scalar.dtype()),
                        cudaMemcpyDeviceToHost, stream()),
        "copy from the GPU");
  slot_->pinned->record();
}

double AsyncReadback::wait() const {
  slot_->pinned->wait();
  Tensor value = Tensor::empty({}, DType::f64);
  of(Device::cpu()).elementwise.copy({slot_->pinned->data, slot_->dtype, {}, {}, true}, value);
  return value.data<double>()[0];
}

}  // namespace binade::backend::cuda
