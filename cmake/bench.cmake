# One Google Benchmark executable per bench/*.cpp.
find_package(benchmark REQUIRED)

file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.cpp)
foreach(source IN LISTS bench_sources)
  cmake_path(GET source STEM stem)
  add_executable(bench_${stem} ${source})
  target_link_libraries(bench_${stem} PRIVATE binade binade_dependencies benchmark::benchmark_main)
  binade_compile(bench_${stem} -O2 -ftree-vectorize)
endforeach()
