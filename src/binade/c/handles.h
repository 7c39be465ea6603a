#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "binade/base/error.h"
#include "binade/c.h"
#include "binade/nn/module.h"
#include "binade/tensor/tensor.h"

// What the handles of c.h are, and how its functions turn exceptions into a status.

struct bnd_tensor {
  binade::Tensor value;
};
struct bnd_state {
  binade::StateDict value;
};

namespace binade::c {

// Keeps the message for bnd_last_error.
bnd_status failed(bnd_status status, const char* message) noexcept;

// Runs f and reports what it throws.
template <class F>
bnd_status guarded(F&& f) noexcept {
  try {
    f();
    return BND_OK;
  } catch (const memory::OutOfMemory& error) {
    return failed(BND_MEMORY, error.what());
  } catch (const Error& error) {
    return failed(BND_INVALID, error.what());
  } catch (const std::bad_alloc&) {
    return failed(BND_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(BND_INTERNAL, error.what());
  } catch (...) {
    return failed(BND_INTERNAL, "an unknown error");
  }
}

// The object behind a pointer that must not be null.
template <class T>
T& checked(T* pointer, const char* function, const char* argument) {
  if (pointer == nullptr)
    fail(function, {.argument = argument, .expected = "a pointer", .found = "NULL"});
  return *pointer;
}

// Runs make and hands what it returns to the caller as a new handle.
template <class Handle, class F>
bnd_status giving(const char* function, Handle** result, F&& make) noexcept {
  return guarded([&] {
    checked(result, function, "result");
    *result = std::make_unique<Handle>(Handle{make()}).release();
  });
}

inline const Tensor& tensor_of(const bnd_tensor* handle, const char* function) {
  return checked(handle, function, "tensor").value;
}

DType type_of(bnd_dtype dtype);
bnd_dtype code_of(DType dtype);
Device device_of(bnd_device device);
bnd_device code_of(Device device);

// The tensors of an array of handles; a null handle becomes an undefined tensor.
std::vector<Tensor> tensors_of(const bnd_tensor* const* handles, size_t count,
                               const char* function);

}  // namespace binade::c
