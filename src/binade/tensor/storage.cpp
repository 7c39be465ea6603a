#include "binade/tensor/storage.h"

namespace binade {

Storage::Storage(size_t bytes, Device device, memory::Category category)
    : data_(static_cast<std::byte*>(memory::acquire(bytes, category, device))),
      bytes_(bytes),
      device_(device),
      category_(category) {}

Storage::~Storage() { memory::release(data_, bytes_, category_, device_); }

}  // namespace binade
