#include "binade/backend/attention.h"

#include "binade/backend/cuda/attention/decode.h"
#include "binade/backend/cuda/attention/hopper.h"
#include "binade/backend/cuda/attention/rope.h"
#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/kernels.h"
#ifdef BINADE_CUDNN
#include "binade/backend/cuda/attention/cudnn.h"
#endif

// cuDNN if it supports the tensors, else Binade's own kernels; the backward on Hopper is Binade's
// own, which is deterministic without storing the gradients of scores, and faster than cuDNN's that
// is not. All define lse alike, so that one can compute the forward and another the backward.
namespace binade::backend::cuda {
namespace {

// Only Hopper's kernels attend within documents.
void require_no_documents(const DocumentRows& documents) {
  if (documents.present())
    fail("attention", {.argument = "documents",
                       .expected = "f16 or bf16 heads of 64 or 128 elements on a Hopper GPU",
                       .found = "others"});
}

void forward(const AttentionForward& call) {
  if (native::hopper_forward.supports(call)) return native::hopper_forward.run(call);
  require_no_documents(call.documents);
#ifdef BINADE_CUDNN
  if (cudnn::attention_forward(call)) return;
#endif
  native::attention_forward(call);
}

void backward(const AttentionBackward& call) {
  if (native::hopper_backward.supports(call)) return native::hopper_backward.run(call);
  require_no_documents(call.documents);
#ifdef BINADE_CUDNN
  if (cudnn::attention_backward(call)) return;
#endif
  native::attention_backward(call);
}

// Sequences have any lengths, and cuDNN would build a plan for each.
void forward_each(std::span<const AttentionForward> calls) {
  for (const AttentionForward& call : calls) native::attention_forward(call);
}

void backward_each(std::span<const AttentionBackward> calls) {
  for (const AttentionBackward& call : calls) native::attention_backward(call);
}

}  // namespace

const AttentionKernels attention_kernels{.forward = forward,
                                         .backward = backward,
                                         .forward_each = forward_each,
                                         .backward_each = backward_each,
                                         .rope = rope,
                                         .decode = decode};

}  // namespace binade::backend::cuda
