#pragma once

#include "binade/tensor/storage.h"

// Memory that is returned while its tensors stay. Defined in memory.cpp.
namespace binade::memory {

// Returns the memory of a storage, and its bytes to the accounting: on a CPU to the system, while
// its addresses stay; on a GPU to the allocator. The contents are lost, but views and saved tensors
// stay valid for restore_pages() and new contents. The storage must have its memory again when it
// is destroyed.
void drop_pages(Storage& storage);
void restore_pages(Storage& storage);

}  // namespace binade::memory
