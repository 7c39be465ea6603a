#include <binade/binade.h>

#include <cstdio>

int main() {
  const binade::Tensor x = binade::tensor({1, 2, 3});
  std::printf("sum %g\n", sum(x).item());
}
