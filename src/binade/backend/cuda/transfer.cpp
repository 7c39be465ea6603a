#include "binade/backend/cuda/transfer.h"

#include <array>
#include <cstring>
#include <vector>

#include "binade/backend/backend.h"
#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda {
namespace {

// A pinned buffer and the event that marks the end of its last use on the device.
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

// Larger uploads bypass the staging buffers. A batch of tokens fits, and eight buffers stay small.
constexpr size_t staged_bytes = size_t{4} << 20;

// Staging buffers in round-robin order: eight cover several steps, so that reusing one seldom
// waits. Never freed, because the driver may shut down before static destructors run.
Pinned& next_staging_buffer() {
  thread_local std::array<Pinned*, 8> buffers{};
  thread_local size_t next = 0;
  Pinned*& buffer = buffers[next++ % buffers.size()];
  if (buffer == nullptr) {
    buffer = new Pinned(staged_bytes);
  } else {
    buffer->wait();
  }
  return *buffer;
}

// One-element slots that are free for reuse.
std::vector<Pinned*>& free_slots() {
  thread_local auto& slots = *new std::vector<Pinned*>();
  return slots;
}

void upload(const void* from, void* to, size_t bytes) {
  if (bytes > staged_bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream()), "copy to the GPU");
    return;
  }
  const Pinned& buffer = next_staging_buffer();
  std::memcpy(buffer.data, from, bytes);
  check(cudaMemcpyAsync(to, buffer.data, bytes, cudaMemcpyHostToDevice, stream()),
        "copy to the GPU");
  buffer.record();
}

}  // namespace

void transfer(const Tensor& x, const Tensor& y) {
  const auto bytes = static_cast<size_t>(x.bytes());
  if (bytes == 0) return;
  activate(x.device().is_cuda() ? x.device() : y.device());
  if (is_capturing()) {  // every replay would copy the host data of the capture
    fail("transfer", {.argument = "x",
                      .expected = "no copy between host and GPU in captured work",
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
