#pragma once

#include <cstddef>
#include <utility>

#include "binade/backend/backend.h"

// The meta backend: its kernels do nothing, so a program run on it only computes shapes and memory.
namespace binade::backend::meta {

// Converts to any kernel's type, as a kernel that does nothing.
struct DoNothing {
  template <class... Args>
  using Kernel = void (*)(Args...);

  template <class... Args>
  constexpr operator Kernel<Args...>() const {
    return [](Args...) {};
  }
};

// A table of kernels that do nothing. Tables hold only function pointers.
template <class Table>
constexpr Table idle() {
  constexpr size_t entries = sizeof(Table) / sizeof(void (*)());
  return []<size_t... I>(std::index_sequence<I...>) {
    return Table{(static_cast<void>(I), DoNothing{})...};
  }
  (std::make_index_sequence<entries>());
}

const Backend& table(Device device);

}  // namespace binade::backend::meta
