#include "binade/backend/side_stream.h"

#include "binade/backend/backend.h"
#include "binade/base/error.h"

#ifdef BINADE_CUDA

#include "binade/backend/cuda/device.h"

namespace binade::backend {

struct SideStream::Event::State {
  State() { cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"); }
  ~State() { cudaEventDestroy(event); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  cudaEvent_t event = nullptr;
};

struct SideStream::State {
  explicit State(Device device) {
    cuda::activate(device);
    int least = 0, greatest = 0;
    cuda::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    // Communication first: the kernels beside it fill the rest of the GPU.
    cuda::check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "stream");
  }
  ~State() { cudaStreamDestroy(stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  cudaStream_t stream = nullptr;
  Event::State followed;
};

SideStream::SideStream(Device device) : device_(device) {
  of(device);  // fails if this machine does not have the device
  state_ = std::make_shared<State>(device);
}

void* SideStream::native() const { return state_->stream; }

bool SideStream::Event::reached() const { return cudaEventQuery(state_->event) == cudaSuccess; }

void SideStream::follow_device() {
  cuda::activate(device_);
  cuda::check(cudaEventRecord(state_->followed.event, cuda::stream()), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(state_->stream, state_->followed.event, 0),
              "cudaStreamWaitEvent");
}

SideStream::Event SideStream::record() {
  Event result;
  result.state_ = std::make_shared<Event::State>();
  cuda::check(cudaEventRecord(result.state_->event, state_->stream), "cudaEventRecord");
  return result;
}

void SideStream::make_device_wait(const Event& event) {
  cuda::activate(device_);
  cuda::check(cudaStreamWaitEvent(cuda::stream(), event.state_->event, 0), "cudaStreamWaitEvent");
}

bool SideStream::is_capturing() const {
  cuda::activate(device_);
  return cuda::is_capturing();
}

}  // namespace binade::backend

#else

namespace binade::backend {

struct SideStream::Event::State {};
struct SideStream::State {};

SideStream::SideStream(Device device) : device_(device) {
  fail("stream", {.argument = "device",
                  .expected = "a GPU and a build with CUDA",
                  .found = to_string(device)});
}

void* SideStream::native() const { return nullptr; }
bool SideStream::Event::reached() const { return true; }
void SideStream::follow_device() {}
SideStream::Event SideStream::record() { return {}; }
void SideStream::make_device_wait(const Event&) {}
bool SideStream::is_capturing() const { return false; }

}  // namespace binade::backend

#endif
