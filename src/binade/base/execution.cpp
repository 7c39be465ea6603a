#include "binade/base/execution.h"

#include <array>
#include <mutex>

#include "binade/base/division.h"
#include "binade/base/error.h"

namespace binade::execution {
namespace detail {
namespace {

// The slots in the order of their first use, which is the order of their values in every block.
struct Registry {
  std::mutex mutex;  // of writing
  std::array<SlotBase*, 64> slots{};
  std::atomic<uint32_t> count = 0;
  uint32_t end = 0;
};
constinit Registry registry;

// The one block of ambient values per thread. A plain object: see Block.
constinit thread_local Block block_of_thread{};

}  // namespace

Block& thread_block() { return block_of_thread; }

// What blocks do with their values.
struct Values {
  static void place(SlotBase& slot) {
    const std::lock_guard lock(registry.mutex);
    if (slot.offset_.load(std::memory_order_relaxed) != UINT32_MAX) return;
    const uint32_t count = registry.count.load(std::memory_order_relaxed);
    const size_t offset = round_up(static_cast<size_t>(registry.end), slot.type_.alignment);
    if (count == registry.slots.size() || offset + slot.type_.size > Block::capacity) {
      fail("execution state",
           {.argument = "slot",
            .expected = "at most " + std::to_string(registry.slots.size()) + " slots with " +
                        std::to_string(Block::capacity) + " bytes",
            .found = "slot " + std::to_string(count + 1) + " of " +
                     std::to_string(slot.type_.size) + " bytes at " + std::to_string(offset),
            .hint = "raise Block::capacity or keep the value behind a pointer"});
    }
    registry.slots[count] = &slot;
    registry.end = static_cast<uint32_t>(offset + slot.type_.size);
    slot.offset_.store(static_cast<uint32_t>(offset), std::memory_order_release);
    registry.count.store(count + 1, std::memory_order_release);
  }

  static uint32_t known() { return registry.count.load(std::memory_order_acquire); }

  static std::byte* at(Block& block, const SlotBase& slot) {
    return block.bytes + slot.offset_.load(std::memory_order_relaxed);
  }

  // Gives every slot that is known by now a value: that of `from`, or the initial one.
  static void fill(Block& block, const Block* from) {
    for (const uint32_t all = known(); block.count < all; ++block.count) {
      const SlotBase& slot = *registry.slots[block.count];
      const auto offset = slot.offset_.load(std::memory_order_relaxed);
      if (from != nullptr && block.count < from->count && slot.belongs_ != Belongs::to_thread) {
        slot.type_.copy(block.bytes + offset, from->bytes + offset);
      } else {
        slot.make_(block.bytes + offset, slot);
      }
      block.end = offset + static_cast<uint32_t>(slot.type_.size);
    }
  }

  // The block can be filled again: statics are destroyed after the main thread's values.
  static void clear(Block& block) noexcept {
    const uint32_t count = std::exchange(block.count, 0);
    block.end = 0;
    for (uint32_t i = 0; i < count; ++i)
      registry.slots[i]->type_.destroy(at(block, *registry.slots[i]));
  }

  static void swap(Block& block, Block& other, Draws draws) noexcept {
    for (uint32_t i = 0; i < other.count; ++i) {
      const SlotBase& slot = *registry.slots[i];
      const bool installed = slot.belongs_ == Belongs::to_work ||
                             (slot.belongs_ == Belongs::to_stream && draws == Draws::again);
      if (installed) slot.type_.swap(at(block, slot), at(other, slot));
    }
  }

  static void fill_thread() {
    struct AtExit {
      ~AtExit() { clear(block_of_thread); }
    };
    thread_local AtExit at_exit;  // destroys the values of the thread
    static_cast<void>(at_exit);
    fill(block_of_thread, nullptr);
  }
};

void* SlotBase::first_value() {
  Values::place(*this);
  Values::fill_thread();
  return Values::at(block_of_thread, *this);
}

}  // namespace detail

State::State(const detail::Block& from) : State(nullptr) { detail::Values::fill(block_, &from); }

State::~State() { detail::Values::clear(block_); }

Scope::Scope(const State& state, Draws draws) : other_(state), draws_(draws) {
  detail::Values::fill_thread();
  swap();
}

void Scope::swap() noexcept { detail::Values::swap(detail::thread_block(), other_.block_, draws_); }

}  // namespace binade::execution
