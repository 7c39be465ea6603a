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

void forward(const AttentionForward& call) {
  if (call.documents.present()) return native::documents_forward_hopper(call);
#ifdef BINADE_CUDNN
  if (cudnn::attention_forward(call)) return;
#endif
  native::attention_forward(call);
}

void backward(const AttentionBackward& call) {
  if (native::attention_backward_hopper(call)) return;
  if (call.documents.present())
    fail("attention",
         {.argument = "documents", .expected = "what the forward ran on", .found = "others"});
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
