#pragma once

#include <hwy/highway.h>

// The end of a file of row functions that Highway compiles once per instruction set: defines
//
//   template <class T> const Rows<T>& function();    for float and double
//
// by the rows_f32() and rows_f64() of the best instruction set that the machine has. Stands within
// `#if HWY_ONCE`, in the namespace of `function`.
#define BINADE_DISPATCH_ROWS(Rows, function)  \
  HWY_EXPORT(rows_f32);                       \
  HWY_EXPORT(rows_f64);                       \
  template <>                                 \
  const Rows<float>& function<float>() {      \
    return *HWY_DYNAMIC_DISPATCH(rows_f32)(); \
  }                                           \
  template <>                                 \
  const Rows<double>& function<double>() {    \
    return *HWY_DYNAMIC_DISPATCH(rows_f64)(); \
  }                                           \
  static_assert(true)
