#include <binade/c.h>
#include <stdio.h>

int main(void) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  const bnd_layout layout = {shape, 2, BND_F32, {BND_CPU, 0}};
  bnd_tensor *x = NULL, *y = NULL;
  bnd_status status = bnd_tensor_from_data(&layout, values, sizeof values, &x);
  if (status == BND_OK) {
    const bnd_tensor* inputs[] = {x};
    const bnd_option options[] = {{.name = "axis", .kind = BND_INT, .integer = -1}};
    status = bnd_op("cumsum", inputs, 1, options, 1, &y);
  }
  float sums[6];
  if (status == BND_OK) status = bnd_tensor_read(y, sums, sizeof sums);
  if (status == BND_OK) printf("%g %g\n", sums[2], sums[5]);
  if (status != BND_OK) fprintf(stderr, "%s\n", bnd_last_error());
  bnd_tensor_free(y);
  bnd_tensor_free(x);
  return status == BND_OK ? 0 : 1;
}
