// What the files of the binding share: array types, and the objects that Python holds.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "sgl/arena.h"
#include "sgl/pack.h"
#include "sgl/program.h"

namespace nb = nanobind;

namespace sgl {

using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Floats1 = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats2 = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Longs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::c_contig>;

template <class T>
Array<T> NewArray(std::initializer_list<size_t> shape) {
  size_t count = 1;
  for (size_t s : shape) count *= s;
  T* data = new T[count];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Array<T>(data, shape, owner);
}

inline const Kernels& KernelsNamed(const std::optional<std::string>& name) {
  if (!name) return BestKernels();
  const Kernels* kernels = FindKernels(name->c_str());
  if (kernels == nullptr) {
    throw std::invalid_argument("instruction set '" + *name +
                                "' is not built or not supported here; accepted are those of "
                                "instruction_sets()");
  }
  return *kernels;
}

inline DType DTypeNamed(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBf16;
  if (name == "int8") return DType::kI8;
  throw std::invalid_argument("dtype '" + name +
                              "'; accepted are float32, float16, bfloat16, int8");
}

// A packed matrix; its bytes lie in an arena that lives as long as it does.
struct Weight {
  PackedWeight w;
  const Kernels* kernels;
  std::shared_ptr<WeightArena> arena;
  uint8_t* bytes;

  Weight(std::shared_ptr<WeightArena> memory, Format format, int64_t n, int64_t k,
         const Kernels& kern)
      : w(PackedLayout(format, n, k, kern.nr)),
        kernels(&kern),
        arena(std::move(memory)),
        bytes(arena->Take(PackedBytes(w))) {
    w.data = bytes;
  }

  // Rows [begin, end) of another one, sharing its bytes; begin lies at a tile's border.
  Weight(const Weight& whole, int64_t begin, int64_t end)
      : w(whole.w), kernels(whole.kernels), arena(whole.arena), bytes(whole.bytes) {
    bytes += begin / w.nr * w.tile_bytes;
    w.data = bytes;
    w.n = end - begin;
  }
};

using ArenaPtr = std::shared_ptr<WeightArena>;

inline ArenaPtr Own(ArenaPtr arena) { return arena ? arena : std::make_shared<WeightArena>(1); }

// Keys and values of one layer.
struct Pool {
  std::string dtype;
  DType type;
  int64_t slots, kv_heads, head_dim;
  PageBlock k, v;              // memory is taken as slots are first used
  PageBlock k_scale, v_scale;  // float32 [kv_heads, slots] of int8 pools

  Pool(int64_t slot_count, int64_t heads, int64_t dim, const std::string& name)
      : dtype(name),
        type(DTypeNamed(name)),
        slots(slot_count),
        kv_heads(heads),
        head_dim(dim),
        k(bytes()),
        v(bytes()),
        k_scale(scale_bytes()),
        v_scale(scale_bytes()) {}

  // Keys and values of some slots as floats [slots, kv_heads, head_dim] each.
  std::pair<Array<float>, Array<float>> Read(Longs wanted) const;

  int64_t scale_bytes() const { return type == DType::kI8 ? slots * kv_heads * 4 : 0; }
  int64_t bytes() const { return slots * kv_heads * PaddedHeadDim(head_dim) * SizeOf(type); }
};

// Masks of tokens, arrays of equally many words each, or None where a row has none.
struct Masks {
  using Words = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  std::vector<Words> held;
  std::vector<const int32_t*> pointers;
  int64_t words = 0;

  explicit Masks(const nb::list& masks);
};

// Each file adds its part of the module.
void BindProgram(nb::module_& m);
void BindSampling(nb::module_& m);
void BindOps(nb::module_& m);

}  // namespace sgl
