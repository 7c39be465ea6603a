#include "binade/backend/cuda/transfer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
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

struct PinnedBuffers {
  // In round-robin order: eight cover several steps, so that reusing one seldom waits.
  std::array<Pinned*, 8> staging{};
  size_t next = 0;                  // of them
  std::vector<Pinned*> free_slots;  // of one element, free for reuse
};

// Per thread, so that copies take no lock. Never freed, because the driver may shut down before
// static destructors run.
PinnedBuffers& pinned_buffers() {
  thread_local auto& buffers = *new PinnedBuffers();
  return buffers;
}

Pinned& next_staging_buffer() {
  PinnedBuffers& all = pinned_buffers();
  Pinned*& buffer = all.staging[all.next++ % all.staging.size()];
  if (buffer == nullptr) {
    buffer = new Pinned(staged_bytes);
  } else {
    buffer->wait();
  }
  return *buffer;
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

void copy_bytes(Device device, std::byte* to, const std::byte* from, int64_t bytes) {
  activate(device);
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream()),
        "copy on the GPU");
}

struct AsyncReadback::Slot {
  Pinned* pinned = nullptr;
  DType dtype = DType::f32;

  ~Slot() { pinned_buffers().free_slots.push_back(pinned); }
};

AsyncReadback::AsyncReadback(const Tensor& scalar) : slot_(std::make_shared<Slot>()) {
  activate(scalar.device());
  std::vector<Pinned*>& free = pinned_buffers().free_slots;
  if (free.empty()) {
    slot_->pinned = new Pinned(sizeof(double));
  } else {
    slot_->pinned = free.back();
    free.pop_back();
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

namespace {

// Pinned buffers of downloads that are free for reuse, by size: powers of two, so that few sizes
// exist. Shared by threads and never freed.
struct DownloadBuffers {
  std::mutex mutex;
  std::map<size_t, std::vector<Pinned*>> free;
};

DownloadBuffers& download_buffers() {
  static auto& buffers = *new DownloadBuffers();
  return buffers;
}

}  // namespace

struct AsyncDownload::Block {
  Pinned* pinned = nullptr;
  size_t size = 0;
  Shape shape;
  DType dtype = DType::f32;
  Device device;

  ~Block() {
    DownloadBuffers& buffers = download_buffers();
    const std::lock_guard lock(buffers.mutex);
    buffers.free[size].push_back(pinned);
  }
};

AsyncDownload::AsyncDownload(const Tensor& x) {
  activate(x.device());
  const auto bytes = static_cast<size_t>(x.bytes());
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
  Pinned* pinned = nullptr;
  {
    DownloadBuffers& buffers = download_buffers();
    const std::lock_guard lock(buffers.mutex);
    std::vector<Pinned*>& free = buffers.free[size];
    if (!free.empty()) {
      pinned = free.back();
      free.pop_back();
    }
  }
  if (pinned == nullptr) pinned = new Pinned(size);
  block_ = std::make_shared<Block>();
  block_->pinned = pinned;
  block_->size = size;
  block_->dtype = x.dtype();
  block_->device = x.device();
  block_->shape = x.shape();
  check(cudaMemcpyAsync(pinned->data, x.raw_data(), bytes, cudaMemcpyDeviceToHost, stream()),
        "copy from the GPU");
  pinned->record();
}

Tensor AsyncDownload::wait() const {
  activate(block_->device);
  block_->pinned->wait();
  Tensor host = Tensor::empty(block_->shape, block_->dtype);
  std::memcpy(host.raw_data(), block_->pinned->data, static_cast<size_t>(host.bytes()));
  return host;
}

}  // namespace binade::backend::cuda
