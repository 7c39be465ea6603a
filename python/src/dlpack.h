#pragma once

#include <cstdint>

// The structures of DLPack 1.1, whose layout its specification fixes:
// https://dmlc.github.io/dlpack/latest/c_api.html
namespace binade::python::dlpack {

struct Version {
  uint32_t major, minor;
};

enum DeviceType : int32_t { cpu = 1, cuda = 2 };

struct Device {
  int32_t type;
  int32_t id;
};

enum TypeCode : uint8_t {
  signed_integer = 0,
  unsigned_integer = 1,
  ieee_float = 2,
  bfloat = 4,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12,
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

inline constexpr uint64_t read_only = 1;

struct VersionedTensor {
  Version version;
  void* context;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace binade::python::dlpack
