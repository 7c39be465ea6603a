#include "binade/tensor/storage.h"

#include <utility>

namespace binade {

Storage::Storage(size_t bytes, Device device, memory::Category category)
    : data_(static_cast<std::byte*>(memory::acquire(bytes, category, device))),
      bytes_(bytes),
      device_(device),
      category_(category) {}

Storage::Storage(void* data, size_t bytes, Device device, std::function<void()> release)
    : data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      device_(device),
      category_(memory::Category::activations),
      release_(std::move(release)) {}

Storage::~Storage() {
  if (is_foreign()) {
    release_();
  } else {
    memory::release(data_, bytes_, category_, device_);
  }
}

}  // namespace binade
