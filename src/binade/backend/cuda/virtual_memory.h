#pragma once

#include "binade/tensor/memory.h"

// Ranges of device addresses whose memory comes and goes in parts, by the driver's virtual memory
// management.
namespace binade::backend::cuda {

// Committed memory has these pages, on every GPU with virtual memory management.
inline constexpr size_t virtual_memory_granularity = size_t{2} << 20;

// As many addresses as the device has memory; none if its driver cannot reserve any.
memory::AddressRange reserve_addresses(Device device);
// See memory::Source.
bool commit_memory(void* begin, size_t bytes, Device device);
void decommit_memory(void* begin, size_t bytes, Device device);

}  // namespace binade::backend::cuda
