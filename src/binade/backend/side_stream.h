#pragma once

#include <memory>

#include "binade/tensor/device.h"

namespace binade::backend {

// A second queue of work on a GPU, for libraries that communicate while kernels run. Nothing here
// waits on the host, and all of it may be captured in a graph. Fails without CUDA.
class SideStream {
 public:
  explicit SideStream(Device device);

  Device device() const { return device_; }
  // The stream as a cudaStream_t.
  void* native() const;

  // A point in the stream's work.
  class Event {
   public:
    Event() = default;
    // Whether the GPU has reached it. Never waits. On any thread, but not for captured work.
    bool reached() const;

   private:
    friend class SideStream;
    struct State;
    std::shared_ptr<State> state_;
  };

  // Work submitted to this stream from here on starts after all that the device has so far.
  void follow_device();
  Event record();
  // Work submitted to the device from here on starts after `event`.
  void make_device_wait(const Event& event);
  // Whether the device's work is being captured.
  bool is_capturing() const;

 private:
  struct State;
  Device device_;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
