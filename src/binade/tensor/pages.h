#pragma once

#include "binade/tensor/storage.h"

// Memory that is returned to the system while its addresses stay. Defined in memory.cpp.
namespace binade::memory {

// Returns the pages of a storage to the system and its bytes to the accounting. The contents are
// lost, but views and saved tensors stay valid for restore_pages() and new contents. The storage
// must have its pages again when it is destroyed. Not on GPUs.
void drop_pages(const Storage& storage);
void restore_pages(const Storage& storage);

}  // namespace binade::memory
