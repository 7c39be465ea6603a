/* A program in C: two layers learn XOR in f16 with loss scaling, by the names of PyTorch's loop. Exits with 1 and a
 * message if anything fails or the loss does not fall. */
#include <binade/c.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                      \
  do {                                                                 \
    if ((call) != BND_OK) {                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, bnd_last_error()); \
      exit(1);                                                         \
    }                                                                  \
  } while (0)

static const bnd_device cpu = {BND_CPU, 0};

static bnd_tensor* from_floats(const float* values, int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  const bnd_layout layout = {shape, 2, BND_F32, cpu};
  bnd_tensor* tensor = NULL;
  TRY(bnd_tensor_from_data(&layout, values, sizeof(float) * (size_t)(rows * columns), &tensor));
  return tensor;
}

static bnd_tensor* random_parameter(int64_t rows, int64_t columns, uint64_t seed) {
  const int64_t shape[2] = {rows, columns};
  const bnd_layout layout = {shape, 2, BND_F32, cpu};
  bnd_tensor* tensor = NULL;
  TRY(bnd_tensor_randn(&layout, seed, &tensor));
  TRY(bnd_tensor_set_requires_grad(tensor, 1));
  return tensor;
}

static bnd_tensor* op2(const char* name, const bnd_tensor* a, const bnd_tensor* b) {
  const bnd_tensor* inputs[2] = {a, b};
  bnd_tensor* result = NULL;
  TRY(bnd_op(name, inputs, b ? 2 : 1, NULL, 0, &result));
  return result;
}

/* The mean squared error of the network's answers. */
static bnd_tensor* loss_of(const bnd_tensor* x, const bnd_tensor* y, bnd_tensor* const* weights) {
  bnd_autocast* autocast = NULL;
  TRY(bnd_autocast_begin(BND_F16, 1, &autocast));
  bnd_tensor* hidden = op2("linear", x, weights[0]);
  bnd_tensor* active = op2("tanh", hidden, NULL);
  bnd_tensor* answer = op2("linear", active, weights[1]);
  bnd_tensor* loss = op2("mse_loss", answer, y);
  bnd_autocast_end(autocast);
  bnd_tensor_free(hidden);
  bnd_tensor_free(active);
  bnd_tensor_free(answer);
  return loss;
}

static double train(void) {
  const float inputs[12] = {0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1}, targets[4] = {0, 1, 1, 0};
  bnd_tensor* x = from_floats(inputs, 4, 3);
  bnd_tensor* y = from_floats(targets, 4, 1);
  bnd_tensor* weights[2] = {random_parameter(16, 3, 1), random_parameter(1, 16, 2)};
  const bnd_adam_options options = {0.05, 0.9, 0.999, 1e-8, 0};
  bnd_optimizer* optimizer = NULL;
  bnd_scaler* scaler = NULL;
  TRY(bnd_adamw_new((const bnd_tensor* const*)weights, 2, &options, &optimizer));
  TRY(bnd_scaler_new(NULL, &scaler));

  double value = 0;
  int applied_steps = 0;
  for (int step = 0; step < 100; ++step) {
    bnd_tensor *loss = loss_of(x, y, weights), *scaled = NULL;
    int applied = 0;
    TRY(bnd_optimizer_zero_grad(optimizer));
    TRY(bnd_scaler_scale(scaler, loss, &scaled));
    TRY(bnd_tensor_backward(scaled, NULL));
    TRY(bnd_scaler_step(scaler, optimizer, &applied));
    TRY(bnd_scaler_update(scaler));
    TRY(bnd_tensor_item(loss, &value));
    applied_steps += applied;
    bnd_tensor_free(loss);
    bnd_tensor_free(scaled);
  }
  printf("loss %.6f after %d applied steps\n", value, applied_steps);
  bnd_scaler_free(scaler);
  bnd_optimizer_free(optimizer);
  bnd_tensor_free(weights[0]);
  bnd_tensor_free(weights[1]);
  bnd_tensor_free(x);
  bnd_tensor_free(y);
  return applied_steps > 90 ? value : 1;
}

int main(void) {
  bnd_tensor* nothing = NULL;
  if (bnd_op("no_such_op", NULL, 0, NULL, 0, &nothing) != BND_INVALID || bnd_last_error()[0] == 0) {
    fprintf(stderr, "an unknown op was not refused\n");
    return 1;
  }
  return train() < 1e-3 ? 0 : 1;
}
