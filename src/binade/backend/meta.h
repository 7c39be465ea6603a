#pragma once

#include <cstddef>
#include <utility>

#include "binade/backend/backend.h"

// The backend that does nothing: any program runs on it for its shapes and its memory alone.
namespace binade::backend::meta {

// Converts to any kernel's type, as a kernel that returns at once.
struct DoNothing {
  template <class... Args>
  using Kernel = void (*)(Args...);

  template <class... Args>
  constexpr operator Kernel<Args...>() const {
    return [](Args...) {};
  }
};

// A table with every entry doing nothing. Tables hold function pointers and nothing else.
template <class Table>
constexpr Table idle() {
  constexpr size_t entries = sizeof(Table) / sizeof(void (*)());
  return []<size_t... I>(std::index_sequence<I...>) {
    return Table{(static_cast<void>(I), DoNothing{})...};
  }
  (std::make_index_sequence<entries>());
}

const Backend& table();

}  // namespace binade::backend::meta
