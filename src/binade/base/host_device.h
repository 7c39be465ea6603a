#pragma once

// BINADE_HD marks a function that host and device code share.
#ifdef __CUDACC__
#define BINADE_HD __host__ __device__
#else
#define BINADE_HD
#endif
