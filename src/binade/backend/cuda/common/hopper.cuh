#pragma once

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "binade/formats/number.h"

// Instructions of compute capability 9.0 that have no intrinsics: barriers in shared memory, bulk
// copies, and matmuls of warpgroups. They need sm_90a. Addresses in shared memory are 32-bit.
namespace binade::backend::cuda::hopper {

__device__ inline uint32_t shared_address(const void* x) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(x));
}

// ---- Barriers. A phase ends when `count` threads have arrived and all expected bytes have.

__device__ inline void init_barrier(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

// Makes initialized barriers visible to bulk copies.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier)
               : "memory");
}

// Arrives; the phase also waits for this many bytes of bulk copies.
__device__ inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(
          barrier),
      "r"(bytes)
      : "memory");
}

// Arrives at the same barrier of a thread block of the cluster.
__device__ inline void arrive_at(uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 address;\nmapa.shared::cluster.u32 address, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [address];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}

__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Waits until the phase of this parity has ended. The phase before the first counts as odd.
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// Bulk copies and matmuls see this thread's earlier writes to shared memory.
__device__ inline void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- Bulk copies, started by one thread.

// The box of a tensor [batch, heads, rows, dim] or of a matrix from a corner on, into shared
// memory.
struct BoxCorner {
  int column, row, head, batch;
};
struct MatrixCorner {
  int column, row;
};
__device__ inline void load_box(uint32_t to, const CUtensorMap& map, const BoxCorner& at,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(at.head), "r"(at.batch), "r"(barrier)
      : "memory");
}
__device__ inline void load_box(uint32_t to, const CUtensorMap& map, const MatrixCorner& at,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier)
      : "memory");
}
// Into that of both thread blocks of a cluster, completing on the barriers of both.
__device__ inline void load_box_to_cluster(uint32_t to, const CUtensorMap& map,
                                           const MatrixCorner& at, uint32_t barrier) {
  constexpr uint16_t both = 3;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier), "h"(both)
      : "memory");
}

__device__ inline void load_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// From shared memory to the box of a matrix.
__device__ inline void store_box(const CUtensorMap& map, const MatrixCorner& at, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(at.column), "r"(at.row), "r"(from)
      : "memory");
}
// This thread's stores so far are one group.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until this thread's stores have read shared memory.
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// ---- Conversions

// Two adjacent elements in one register, the first one low.
template <class T>
__device__ inline uint32_t narrow_pair(float low, float high) {
  uint32_t pair;
  if constexpr (std::is_same_v<T, f16>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

template <class T>
__device__ inline float2 widen_pair(uint32_t pair) {
  if constexpr (std::is_same_v<T, f16>)
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  else
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

// ---- Additions

// sums += x, four elements in the L2 cache. `sums` is a multiple of 16 bytes.
__device__ inline void add_four(float* sums, const float* x) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sums), "f"(x[0]),
               "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

// ---- Matmuls of 64 x N x 16 by a warpgroup, in the background.

// Orders the registers of the next matmuls after earlier instructions.
__device__ inline void fence_matmuls() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void commit_matmuls() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int Pending>
__device__ inline void wait_matmuls() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from reading results before the wait above this call.
template <int N>
__device__ inline void hold(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

// An operand in shared memory: tiles of 64 columns, 128 bytes a row, whose 16-byte pieces are
// swizzled by the row's last three bits. A tile starts at a multiple of 1024 bytes. `tile_bytes`:
// distance of tiles if the operand is transposed and more than 64 wide.
__host__ __device__ constexpr uint64_t operand(uint32_t tile_bytes = 1024) {
  constexpr uint64_t swizzle_128 = uint64_t{1} << 62, eight_rows = 1024;
  return swizzle_128 | eight_rows / 16 << 32 | uint64_t{tile_bytes} / 16 << 16;
}
// One of 8 columns, 16 bytes a row, that is read for 16: the other operand has zeros there.
__host__ __device__ constexpr uint64_t narrow_operand() {
  constexpr uint64_t eight_rows = 128;
  return eight_rows / 16 << 32;
}
__device__ inline uint64_t operand_at(uint64_t operand, uint32_t address) {
  return operand | (address & 0x3ffff) / 16;
}

// Results: of thread t of the warpgroup, element i is in row t / 32 * 16 + t % 32 / 4 + i / 2 % 2 *
// 8 and column i / 4 * 8 + t % 4 * 2 + i % 2.
#define BINADE_OUT8(d, i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define BINADE_OUT32(d, i) \
  BINADE_OUT8(d, i), BINADE_OUT8(d, i + 8), BINADE_OUT8(d, i + 16), BINADE_OUT8(d, i + 24)
#define BINADE_LIST32                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define BINADE_LIST64                                                                         \
  BINADE_LIST32                                                                               \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define BINADE_LIST128                                                               \
  BINADE_LIST64                                                                      \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83" \
  ",%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102"  \
  ",%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118" \
  ",%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define BINADE_MATMUL(shape, type, list, operands, add, transposed)                                \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " add ", 0;\nwgmma.mma_async.sync.aligned." shape ".f32." type \
  "." type " {" list "}, " operands ", p, 1, 1, " transposed ";\n}"

// d = a b, or d += a b if `add`; both operands in shared memory.
template <class T, int TransposeA, int TransposeB>
__device__ inline void matmul(float (&d)[32], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, f16>) {
    asm volatile(BINADE_MATMUL("m64n64k16", "f16", BINADE_LIST32, "%32, %33", "%34", "%35, %36")
                 : BINADE_OUT32(d, 0)
                 : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));
  } else {
    asm volatile(BINADE_MATMUL("m64n64k16", "bf16", BINADE_LIST32, "%32, %33", "%34", "%35, %36")
                 : BINADE_OUT32(d, 0)
                 : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));
  }
}
template <class T, int TransposeA, int TransposeB>
__device__ inline void matmul(float (&d)[64], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, f16>) {
    asm volatile(BINADE_MATMUL("m64n128k16", "f16", BINADE_LIST64, "%64, %65", "%66", "%67, %68")
                 : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32)
                 : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));
  } else {
    asm volatile(BINADE_MATMUL("m64n128k16", "bf16", BINADE_LIST64, "%64, %65", "%66", "%67, %68")
                 : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32)
                 : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));
  }
}

template <class T, int TransposeA, int TransposeB>
__device__ inline void matmul(float (&d)[128], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, f16>) {
    asm volatile(
        BINADE_MATMUL("m64n256k16", "f16", BINADE_LIST128, "%128, %129", "%130", "%131, %132")
        : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32), BINADE_OUT32(d, 64), BINADE_OUT32(d, 96)
        : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));
  } else {
    asm volatile(
        BINADE_MATMUL("m64n256k16", "bf16", BINADE_LIST128, "%128, %129", "%130", "%131, %132")
        : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32), BINADE_OUT32(d, 64), BINADE_OUT32(d, 96)
        : "l"(a), "l"(b), "r"(add), "n"(TransposeA), "n"(TransposeB));
  }
}

// The same with a in registers: two elements each, in the order of results.
template <class T, int TransposeB>
__device__ inline void matmul(float (&d)[32], const uint32_t* a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, f16>) {
    asm volatile(
        BINADE_MATMUL("m64n64k16", "f16", BINADE_LIST32, "{%32, %33, %34, %35}, %36", "%37", "%38")
        : BINADE_OUT32(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TransposeB));
  } else {
    asm volatile(
        BINADE_MATMUL("m64n64k16", "bf16", BINADE_LIST32, "{%32, %33, %34, %35}, %36", "%37", "%38")
        : BINADE_OUT32(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TransposeB));
  }
}
template <class T, int TransposeB>
__device__ inline void matmul(float (&d)[64], const uint32_t* a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, f16>) {
    asm volatile(
        BINADE_MATMUL("m64n128k16", "f16", BINADE_LIST64, "{%64, %65, %66, %67}, %68", "%69", "%70")
        : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TransposeB));
  } else {
    asm volatile(BINADE_MATMUL("m64n128k16", "bf16", BINADE_LIST64, "{%64, %65, %66, %67}, %68",
                               "%69", "%70")
                 : BINADE_OUT32(d, 0), BINADE_OUT32(d, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TransposeB));
  }
}

#undef BINADE_OUT8
#undef BINADE_OUT32
#undef BINADE_LIST32
#undef BINADE_LIST64
#undef BINADE_LIST128
#undef BINADE_MATMUL

// ---- Registers

// Moves registers between warpgroups: all warps of one call it.
template <int Count>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void store_matrices(uint32_t address, const uint32_t* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

}  // namespace binade::backend::cuda::hopper
