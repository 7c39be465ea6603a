#pragma once

#include "binade/ops/attention/rope.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/create/categorical.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/loss/margin_loss.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"

// The headers of all plain ops of tensor/ops.def, for what is made from it. Not part of the public
// interface.
