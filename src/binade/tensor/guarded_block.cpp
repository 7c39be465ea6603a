#include "binade/tensor/guarded_block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "binade/base/poison.h"

namespace binade::memory {
namespace {

constexpr uint64_t intact = 0x600D600D600D600D;

// Right before the block, its mark nearest.
struct Header {
  void* mapping;
  size_t length;  // of the mapping
  size_t bytes;   // of the block
  uint64_t mark;
};
static_assert(sizeof(Header) <= alignment);

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void stop(const char* where, size_t bytes) {
  std::fprintf(stderr, "binade: memory %s a block of %zu bytes was changed\n", where, bytes);
  std::abort();
}

}  // namespace

void* acquire_guarded(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t room = rounded(bytes, alignment);
  const size_t length = rounded(sizeof(Header) + room, page) + page;
  void* mapping =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* end = static_cast<char*>(mapping) + length - page;
  if (::mprotect(end, page, PROT_NONE) != 0) {
    ::munmap(mapping, length);
    return nullptr;
  }
  char* block = end - room;
  const Header header{mapping, length, bytes, intact};
  std::memcpy(block - sizeof(Header), &header, sizeof header);
  fill_with_poison(block, room);
  return block;
}

void release_guarded(void* block) {
  if (block == nullptr) return;
  Header header;
  const auto* begin = static_cast<unsigned char*>(block);
  std::memcpy(&header, begin - sizeof(Header), sizeof header);
  if (header.mark != intact) stop("before", header.bytes);
  const auto untouched = [](unsigned char byte) { return byte == poison_byte; };
  if (!std::all_of(begin + header.bytes, begin + rounded(header.bytes, alignment), untouched))
    stop("behind", header.bytes);
  ::munmap(header.mapping, header.length);
}

}  // namespace binade::memory
