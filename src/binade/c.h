#ifndef BINADE_C_H
#define BINADE_C_H

/* Binade for other languages: opaque handles, status codes, plain structs. C11 and C++.
 *
 * Every function that can fail returns a bnd_status; bnd_last_error() then has the message. Results
 * come back through the last pointer arguments, which are written on success alone. A handle that a
 * function returns belongs to the caller, who releases it with the _free function of its type; NULL
 * may be freed. Handles given to a function are only used during the call, unless its comment says
 * otherwise. Tensor handles share the tensor's data and may be used from any thread; autocast is a
 * state of the thread that calls.
 *
 * A whole program, which prints "6 15", the sums of two rows:
 *
 *   #include <binade/c.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     const float values[] = {1, 2, 3, 4, 5, 6};
 *     const int64_t shape[] = {2, 3};
 *     const bnd_layout layout = {shape, 2, BND_F32, {BND_CPU, 0}};
 *     bnd_tensor *x = NULL, *y = NULL;
 *     bnd_status status = bnd_tensor_from_data(&layout, values, sizeof values, &x);
 *     if (status == BND_OK) {
 *       const bnd_tensor* inputs[] = {x};
 *       const bnd_option options[] = {{.name = "axis", .kind = BND_INT, .integer = -1}};
 *       status = bnd_op("cumsum", inputs, 1, options, 1, &y);
 *     }
 *     float sums[6];
 *     if (status == BND_OK) status = bnd_tensor_read(y, sums, sizeof sums);
 *     if (status == BND_OK) printf("%g %g\n", sums[2], sums[5]);
 *     if (status != BND_OK) fprintf(stderr, "%s\n", bnd_last_error());
 *     bnd_tensor_free(y);
 *     bnd_tensor_free(x);
 *     return status == BND_OK ? 0 : 1;
 *   }
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bnd_status {
  BND_OK = 0,
  BND_INVALID = 1,  /* bad input or misuse: shapes, types, files, settings */
  BND_MEMORY = 2,   /* no memory left */
  BND_INTERNAL = 3, /* anything else; please report it */
} bnd_status;

/* The message of this thread's last failed call; "" if there was none. Valid until the next
 * failure. */
const char* bnd_last_error(void);
/* The library's version, such as "0.1.0". */
const char* bnd_version(void);
/* The threads that kernels use. Results do not depend on it. */
bnd_status bnd_set_threads(int threads);

/* ---- types and devices ---- */

typedef enum bnd_dtype {
  BND_F64 = 0,
  BND_F32 = 1,
  BND_F16 = 2,
  BND_BF16 = 3,
  BND_E4M3 = 4,
  BND_E5M2 = 5,
  BND_I64 = 6,
  BND_I32 = 7,
  BND_U8 = 8,
  BND_BOOL = 9,
} bnd_dtype;

typedef enum bnd_device_kind { BND_CPU = 0, BND_CUDA = 1, BND_META = 2 } bnd_device_kind;

typedef struct bnd_device {
  bnd_device_kind kind;
  int index;
} bnd_device;

/* Number of NVIDIA GPUs that this library can use. */
int bnd_gpu_count(void);
/* Waits until a device has finished all submitted work. */
bnd_status bnd_synchronize(bnd_device device);

/* ---- tensors ---- */

typedef struct bnd_tensor bnd_tensor;

typedef struct bnd_layout {
  const int64_t* shape;
  int rank;
  bnd_dtype dtype;
  bnd_device device;
} bnd_layout;

/* Uninitialized memory. */
bnd_status bnd_tensor_empty(const bnd_layout* layout, bnd_tensor** result);
bnd_status bnd_tensor_full(const bnd_layout* layout, double value, bnd_tensor** result);
/* Normal (0, 1) or uniform [0, 1) numbers that depend on the seed alone. */
bnd_status bnd_tensor_randn(const bnd_layout* layout, uint64_t seed, bnd_tensor** result);
bnd_status bnd_tensor_rand(const bnd_layout* layout, uint64_t seed, bnd_tensor** result);
/* A copy of `bytes` bytes of row-major elements of the layout's type. */
bnd_status bnd_tensor_from_data(const bnd_layout* layout, const void* data, size_t bytes,
                                bnd_tensor** result);
/* Another handle of the same tensor. */
bnd_status bnd_tensor_share(const bnd_tensor* tensor, bnd_tensor** result);
void bnd_tensor_free(bnd_tensor* tensor);

int bnd_tensor_rank(const bnd_tensor* tensor);
int64_t bnd_tensor_size(const bnd_tensor* tensor, int axis); /* -1 if there is no such axis */
int64_t bnd_tensor_numel(const bnd_tensor* tensor);
bnd_dtype bnd_tensor_dtype(const bnd_tensor* tensor);
bnd_device bnd_tensor_device(const bnd_tensor* tensor);
/* Copies all elements, row-major, to `data`, which has room for exactly their bytes. */
bnd_status bnd_tensor_read(const bnd_tensor* tensor, void* data, size_t bytes);
/* Overwrites all elements. */
bnd_status bnd_tensor_write(const bnd_tensor* tensor, const void* data, size_t bytes);
/* The value of a tensor of one element. */
bnd_status bnd_tensor_item(const bnd_tensor* tensor, double* value);
bnd_status bnd_tensor_to_device(const bnd_tensor* tensor, bnd_device device, bnd_tensor** result);

/* The tensor's memory without a copy, as a DLManagedTensorVersioned of DLPack 1.x; whoever takes it
 * calls its deleter. Fails for tensors that require a gradient. */
struct DLManagedTensorVersioned;
bnd_status bnd_tensor_to_dlpack(const bnd_tensor* tensor, struct DLManagedTensorVersioned** result);
/* Another library's memory without a copy. Takes `managed` over, on failure too. */
bnd_status bnd_tensor_from_dlpack(struct DLManagedTensorVersioned* managed, bnd_tensor** result);

/* ---- autograd ---- */

/* Makes a tensor of one's own accumulate a gradient. */
bnd_status bnd_tensor_set_requires_grad(bnd_tensor* tensor, int requires_grad);
int bnd_tensor_requires_grad(const bnd_tensor* tensor);
/* The accumulated gradient; NULL if there is none. */
bnd_status bnd_tensor_grad(const bnd_tensor* tensor, bnd_tensor** result);
bnd_status bnd_tensor_zero_grad(const bnd_tensor* tensor);
bnd_status bnd_tensor_detach(const bnd_tensor* tensor, bnd_tensor** result);
/* Adds gradients to all leaves. `seed` may be NULL for a tensor of one element. */
bnd_status bnd_tensor_backward(const bnd_tensor* tensor, const bnd_tensor* seed);

/* ---- ops ---- */

/* An option of an op, by name: a number, a list of integers or a text. */
typedef enum bnd_option_kind {
  BND_INT = 0,
  BND_FLOAT = 1,
  BND_INTS = 2,
  BND_TEXT = 3
} bnd_option_kind;

typedef struct bnd_option {
  const char* name;
  bnd_option_kind kind;
  int64_t integer;     /* BND_INT */
  double number;       /* BND_FLOAT */
  const int64_t* list; /* BND_INTS */
  size_t count;        /* of the list */
  const char* text;    /* BND_TEXT */
} bnd_option;

/* Runs an op by its name, with autograd and this thread's autocast: "matmul", "linear", "softmax"
 * with {"axis": -1}, ... An absent optional input is NULL. bnd_op_name and bnd_op_signature list
 * what there is. All ops have one result. */
bnd_status bnd_op(const char* name, const bnd_tensor* const* inputs, size_t input_count,
                  const bnd_option* options, size_t option_count, bnd_tensor** result);
size_t bnd_op_count(void);
const char* bnd_op_name(size_t index);      /* NULL past the end */
const char* bnd_op_signature(size_t index); /* "softmax(x; axis = -1)" */

/* ---- mixed precision ---- */

typedef struct bnd_autocast bnd_autocast;
/* From now on ops of this thread run under autocast in f16 or bf16, or, if `enabled` is 0, without
 * it. Guards are freed in the reverse order, by the same thread. */
bnd_status bnd_autocast_begin(bnd_dtype dtype, int enabled, bnd_autocast** result);
void bnd_autocast_end(bnd_autocast* guard);

typedef struct bnd_scaler_options {
  double init_scale, growth_factor, backoff_factor;
  int64_t growth_interval;
  int enabled;
  bnd_device device;
} bnd_scaler_options;
/* PyTorch's defaults: 65536, 2, 0.5, 2000, on. */
bnd_scaler_options bnd_scaler_defaults(void);

typedef struct bnd_scaler bnd_scaler;
typedef struct bnd_optimizer bnd_optimizer;
bnd_status bnd_scaler_new(const bnd_scaler_options* options, bnd_scaler** result);
void bnd_scaler_free(bnd_scaler* scaler);
bnd_status bnd_scaler_scale(bnd_scaler* scaler, const bnd_tensor* loss, bnd_tensor** result);
bnd_status bnd_scaler_unscale(bnd_scaler* scaler, bnd_optimizer* optimizer);
/* `applied`, if not NULL, becomes 0 for a skipped step; asking waits for a GPU. */
bnd_status bnd_scaler_step(bnd_scaler* scaler, bnd_optimizer* optimizer, int* applied);
bnd_status bnd_scaler_update(bnd_scaler* scaler);
bnd_status bnd_scaler_get_scale(const bnd_scaler* scaler, double* scale);

/* ---- named tensors: states of modules and optimizers, files ---- */

typedef struct bnd_state bnd_state;
bnd_status bnd_state_new(bnd_state** result);
void bnd_state_free(bnd_state* state);
size_t bnd_state_count(const bnd_state* state);
/* Names are sorted; NULL past the end. Valid until the state changes. */
const char* bnd_state_name(const bnd_state* state, size_t index);
bnd_status bnd_state_get(const bnd_state* state, const char* name, bnd_tensor** result);
bnd_status bnd_state_set(bnd_state* state, const char* name, const bnd_tensor* tensor);
/* Files in the safetensors format; a file is replaced atomically. */
bnd_status bnd_state_read(const char* path, bnd_state** result);
bnd_status bnd_state_write(const bnd_state* state, const char* path);

/* ---- optimizers ---- */

typedef struct bnd_adam_options {
  double lr, beta1, beta2, eps, weight_decay;
} bnd_adam_options;
typedef struct bnd_sgd_options {
  double lr, momentum, weight_decay;
} bnd_sgd_options;

/* An optimizer keeps its parameters alive. 16-bit parameters get f32 master weights. */
bnd_status bnd_adamw_new(const bnd_tensor* const* parameters, size_t count,
                         const bnd_adam_options* options, bnd_optimizer** result);
bnd_status bnd_adam_new(const bnd_tensor* const* parameters, size_t count,
                        const bnd_adam_options* options, bnd_optimizer** result);
bnd_status bnd_sgd_new(const bnd_tensor* const* parameters, size_t count,
                       const bnd_sgd_options* options, bnd_optimizer** result);
/* Any optimizer by the name of its class, "NAdam", with options by their names in Python: numbers
 * (1 and 0 for true and false), or a text for moments ("bf16") and for several numbers ("0.9, 0.95"
 * of betas). Those not given have their defaults; an error lists the known ones. */
bnd_status bnd_optimizer_new(const char* name, const bnd_tensor* const* parameters, size_t count,
                             const bnd_option* options, size_t option_count,
                             bnd_optimizer** result);
void bnd_optimizer_free(bnd_optimizer* optimizer);
bnd_status bnd_optimizer_step(bnd_optimizer* optimizer);
bnd_status bnd_optimizer_zero_grad(bnd_optimizer* optimizer);
bnd_status bnd_optimizer_set_lr(bnd_optimizer* optimizer, double lr);
/* Scales all gradients to a norm of at most `max_norm`; the norm before, if `norm` is not NULL. */
bnd_status bnd_optimizer_clip_grad_norm(bnd_optimizer* optimizer, double max_norm, double* norm);
bnd_status bnd_optimizer_state(bnd_optimizer* optimizer, bnd_state** result);
bnd_status bnd_optimizer_load_state(bnd_optimizer* optimizer, const bnd_state* state);

/* ---- language models ---- */

typedef struct bnd_model bnd_model;
/* The model of a Hugging Face folder. */
bnd_status bnd_model_open(const char* folder, bnd_device device, bnd_dtype dtype,
                          bnd_model** result);
/* A model with random weights, by the settings of `binade train` as TOML: "[model]\nfamily =
 * \"llama\"\nlayers = 2". */
bnd_status bnd_model_new(const char* toml, bnd_model** result);
void bnd_model_free(bnd_model* model);
bnd_status bnd_model_save(const bnd_model* model, const char* folder);
/* Token ids [batch, tokens] to logits [batch, tokens, vocabulary]. */
bnd_status bnd_model_logits(bnd_model* model, const bnd_tensor* tokens, bnd_tensor** result);
/* The mean cross entropy of predicting `targets`. */
bnd_status bnd_model_loss(bnd_model* model, const bnd_tensor* tokens, const bnd_tensor* targets,
                          bnd_tensor** result);
/* Parameters and buffers, shared with the model. */
bnd_status bnd_model_state(bnd_model* model, bnd_state** result);
bnd_status bnd_model_load_state(bnd_model* model, const bnd_state* state);
size_t bnd_model_parameter_count(const bnd_model* model); /* tensors, not elements */
bnd_status bnd_model_parameter(const bnd_model* model, size_t index, bnd_tensor** result);

/* ---- the trainer ---- */

typedef struct bnd_step {
  int64_t step, skipped;
  double loss, lr, gradient_norm, scale;
  int applied;
} bnd_step;
/* Called with each step; a result other than 0 ends the run after a checkpoint. */
typedef int (*bnd_step_callback)(const bnd_step* step, void* context);

/* What `binade train` does, by its settings as TOML, without a progress line. The run's folder gets
 * checkpoints, metrics and a report. `callback` may be NULL. */
bnd_status bnd_train(const char* toml, bnd_step_callback callback, void* context);

#ifdef __cplusplus
}
#endif

#endif
