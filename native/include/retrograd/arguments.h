// One list per argument struct gives the struct and its layout table, so that they cannot drift
// apart.
//
//   #define RMS_NORM_FORWARD(F) F(const float*, x) F(float*, y) F(int64_t, T) F(float, eps)
//   RETRO_ARGUMENTS(RmsNormForward, RMS_NORM_FORWARD)
//
// Order within a list: pointers (inputs, outputs, scratch), 8-byte numbers, 4-byte numbers. An
// absent optional buffer is a null pointer.
#pragma once

#include "retrograd/abi.h"

namespace retrograd {

template <class T>
struct FieldKind;
template <class T>
struct FieldKind<T*> {
  static constexpr int32_t value = RETRO_POINTER;
};
template <>
struct FieldKind<int64_t> {
  static constexpr int32_t value = RETRO_I64;
};
template <>
struct FieldKind<uint64_t> {
  static constexpr int32_t value = RETRO_U64;
};
template <>
struct FieldKind<double> {
  static constexpr int32_t value = RETRO_F64;
};
template <>
struct FieldKind<float> {
  static constexpr int32_t value = RETRO_F32;
};
template <>
struct FieldKind<int32_t> {
  static constexpr int32_t value = RETRO_I32;
};
template <>
struct FieldKind<uint32_t> {
  static constexpr int32_t value = RETRO_U32;
};

template <class A>
struct Layout;  // specialised by RETRO_ARGUMENTS

}  // namespace retrograd

#define RETRO_DECLARE_FIELD(type, name) type name;
#define RETRO_DESCRIBE_FIELD(type, name)                                      \
  {#name, FieldKind<type>::value, static_cast<int32_t>(offsetof(Self, name)), \
   static_cast<int32_t>(sizeof(type))},

#define RETRO_ARGUMENTS(Name, LIST)                                         \
  namespace retrograd {                                                     \
  struct Name {                                                             \
    LIST(RETRO_DECLARE_FIELD)                                               \
  };                                                                        \
  template <>                                                               \
  struct Layout<Name> {                                                     \
    using Self = Name;                                                      \
    static constexpr RetroField fields[] = {LIST(RETRO_DESCRIBE_FIELD)};    \
    static constexpr int32_t n_fields = sizeof(fields) / sizeof(fields[0]); \
  };                                                                        \
  }
