#pragma once

// BINADE_HD marks a function that host and device code share.
#ifdef __CUDACC__
#define BINADE_HD __host__ __device__
#else
#define BINADE_HD
#endif

// BINADE_INLINE marks a function that must be part of its caller, so that arguments which are
// constants there make it as small as they allow.
#define BINADE_INLINE [[gnu::always_inline]] inline
