#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

// The execution state of a thread: everything that ops read without being given it, such as the
// grad mode, autocast and the module path. Each value is a Slot, declared by the component that it
// belongs to. All values of a thread lie in one block that is captured and installed whole, so that
// a new slot goes wherever the others go: into recompute, into the backward of a custom op and into
// threads that work for another. Hooks and backwards run on the thread of backward() in its state.
//
//   constinit execution::Slot<bool> grad_mode(execution::Belongs::to_work, [] { return true; });
//   const Restore<bool> off(*grad_mode, false);
namespace binade::execution {

// What a value belongs to. Every slot says why beside its declaration.
enum class Belongs : uint8_t {
  to_work,    // carried wherever the work is continued or repeated
  to_stream,  // a position among random draws: carried, but work may also go on drawing; see Draws
  to_thread,  // never carried: it refers to what lives on the thread's stack, or to the thread
};

namespace detail {

// The operations of a slot's type.
struct Type {
  size_t size, alignment;
  void (*copy)(void* to, const void* from);
  void (*swap)(void* a, void* b) noexcept;
  void (*destroy)(void* value) noexcept;
};

template <class T>
inline constexpr Type type_of = {
    sizeof(T), alignof(T),
    [](void* to, const void* from) { ::new (to) T(*static_cast<const T*>(from)); },
    [](void* a, void* b) noexcept { std::swap(*static_cast<T*>(a), *static_cast<T*>(b)); },
    [](void* value) noexcept { std::destroy_at(static_cast<T*>(value)); }};

// Values in the order of their slots. Without constructor and destructor, so that access to a
// thread's block costs no check, and is possible while statics are made and destroyed.
struct Block {
  static constexpr size_t capacity = 512;
  alignas(std::max_align_t) std::byte bytes[capacity];
  uint32_t count;  // slots that have a value
  uint32_t end;    // of the last value's bytes
};

Block& thread_block();

class SlotBase {
 public:
  SlotBase(const SlotBase&) = delete;
  SlotBase& operator=(const SlotBase&) = delete;

 protected:
  constexpr SlotBase(Belongs belongs, const Type& type, void (*make)(void*, const SlotBase&))
      : belongs_(belongs), type_(type), make_(make) {}
  ~SlotBase() = default;

  void* value() {
    Block& block = thread_block();
    const uint32_t offset = offset_.load(std::memory_order_acquire);
    return offset < block.end ? block.bytes + offset : first_value();
  }

 private:
  friend struct Values;
  // This thread's value at its first use: places the slot in all blocks if it has no place yet.
  void* first_value();

  Belongs belongs_;
  const Type& type_;
  void (*make_)(void* at, const SlotBase& slot);  // the initial value
  std::atomic<uint32_t> offset_ = UINT32_MAX;     // in every block
};

}  // namespace detail

// One value of every thread's execution state. A slot has static storage duration: declare it
// constinit, so that it can be used at any time.
template <class T>
class Slot : detail::SlotBase {
 public:
  // A thread starts with the value of `initial`.
  constexpr explicit Slot(
      Belongs belongs, T (*initial)() = [] { return T(); })
      : SlotBase(belongs, detail::type_of<T>, &Slot::make), initial_(initial) {
    static_assert(std::is_nothrow_swappable_v<T> && alignof(T) <= alignof(std::max_align_t));
  }

  // This thread's value. The reference is valid until the thread ends.
  T& operator*() { return *static_cast<T*>(value()); }
  T* operator->() { return static_cast<T*>(value()); }

 private:
  static void make(void* at, const SlotBase& slot) {
    ::new (at) T(static_cast<const Slot&>(slot).initial_());
  }
  T (*initial_)();
};

// A copy of this thread's execution state.
class State {
 public:
  State() : State(detail::thread_block()) {}
  State(const State& other) : State(other.block_) {}
  State& operator=(const State&) = delete;
  ~State();

  // That of a thread that begins.
  static State initial() { return State(nullptr); }

 private:
  friend class Scope;
  explicit State(const detail::Block& from);
  explicit State(std::nullptr_t) : block_{} {}  // without values
  detail::Block block_;
};

// This thread's state, to be shared by those who will run in it.
inline std::shared_ptr<const State> capture() { return std::make_shared<const State>(); }

// What work in a captured state draws: what it drew from there on, or what comes next on the
// thread.
enum class Draws : uint8_t { again, next };

// For its lifetime, this thread runs in a captured state. Values that belong to threads stay.
class [[nodiscard]] Scope {
 public:
  explicit Scope(const State& state, Draws draws = Draws::again);
  ~Scope() { swap(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void swap() noexcept;
  State other_;  // the state to install, then the thread's own
  Draws draws_;
};

// `function`, which then runs in the state of now, on whatever thread and whenever it is called.
template <class F>
auto carried(F function) {
  return [state = capture(), function = std::move(function)]() mutable -> decltype(auto) {
    const Scope scope(*state);
    return function();
  };
}

// A thread that runs in the state of the one that starts it.
class Thread : public std::thread {
 public:
  Thread() = default;
  template <class F>
  explicit Thread(F function) : std::thread(carried(std::move(function))) {}
};

}  // namespace binade::execution
