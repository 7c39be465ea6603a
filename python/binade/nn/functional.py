"""The functions behind the layers, under PyTorch's names."""

from .._binade import (  # noqa: F401
    adaptive_avg_pool, adaptive_max_pool, avg_pool, batch_norm, bce_with_logits, bilinear,
    binary_cross_entropy, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d,
    conv_transpose3d, cosine_similarity, cross_entropy, ctc_loss, dropout, elu, embedding, fold,
    gelu, global_avg_pool, group_norm, hardsigmoid, hardswish, hardtanh, hinge_embedding_loss,
    huber_loss, instance_norm, kl_div, l1_loss, layer_norm, leaky_relu, linear,
    linear_cross_entropy, log_softmax, logsigmoid, margin_ranking_loss, max_pool, mish, mse_loss,
    multi_margin_loss, nll_loss, normalize, one_hot, pad, pixel_shuffle, prelu, relu, relu6,
    rms_norm, scaled_dot_product_attention, selu, sigmoid, silu, smooth_l1_loss, soft_margin_loss,
    softmax, softplus, softsign, tanh, triplet_margin_loss, unfold, varlen_attention)

binary_cross_entropy_with_logits = bce_with_logits
max_pool1d = max_pool2d = max_pool3d = max_pool
avg_pool1d = avg_pool2d = avg_pool3d = avg_pool
adaptive_avg_pool1d = adaptive_avg_pool2d = adaptive_avg_pool3d = adaptive_avg_pool
adaptive_max_pool1d = adaptive_max_pool2d = adaptive_max_pool3d = adaptive_max_pool
