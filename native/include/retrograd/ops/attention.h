// attention: softmax attention of T queries over the keys [key_begin[t], key_end[t]) of S, H heads
// over H_kv groups.
// o[t,h] = sum_j P_tj v[j,g],  P_tj = exp(scale q[t,h].k[j,g] - L[t,h]),  g = h H_kv / H.
// An empty range gives o = 0. L (T, H), natural logarithm of the sum, is saved for backward.
// Packed documents, causality and a key cache are all ranges: nothing of size T x S exists.
// backward: D = do.o; dP = do.v; dS = P (dP - D); dq = scale dS k; dk = scale dS^T q; dv = P^T do,
// dk and dv summed over the heads of a group in head order.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define ATTENTION_FORWARD(F) \
  F(const float*, q) F(const float*, k) F(const float*, v) F(const int32_t*, key_begin) \
  F(const int32_t*, key_end) F(float*, o) F(float*, L) F(float*, scratch) F(int64_t, T) \
  F(int64_t, S) F(int32_t, heads) F(int32_t, kv_heads) F(int32_t, head_size) F(float, scale)
// clang-format on
RETRO_ARGUMENTS(AttentionForward, ATTENTION_FORWARD)

// clang-format off
#define ATTENTION_BACKWARD(F) \
  F(const float*, d_o) F(const float*, q) F(const float*, k) F(const float*, v) \
  F(const float*, o) F(const float*, L) F(const int32_t*, key_begin) \
  F(const int32_t*, key_end) F(float*, dq) F(float*, dk) F(float*, dv) F(float*, scratch) \
  F(int64_t, T) F(int64_t, S) F(int32_t, heads) F(int32_t, kv_heads) F(int32_t, head_size) \
  F(float, scale)
// clang-format on
RETRO_ARGUMENTS(AttentionBackward, ATTENTION_BACKWARD)
