// The module _native. Only this folder knows Python: numpy arrays in, numpy arrays out, the GIL
// released while computing. Objects keep what they point to alive.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <vector>

#include "common.h"
#include "half.h"

namespace sgl {
namespace {

float Element(DType type, const uint8_t* row, int64_t i) {
  float wide;
  uint16_t half;
  if (type == DType::kI8) return static_cast<int8_t>(row[i]);
  if (type == DType::kF32) {
    std::memcpy(&wide, row + 4 * i, 4);
    return wide;
  }
  std::memcpy(&half, row + 2 * i, 2);
  return type == DType::kF16 ? HalfToFloat(half) : Bf16ToFloat(half);
}

std::vector<std::string> InstructionSets() {
  std::vector<std::string> names;
  for (const char* name : {"avx512", "avx2", "neon", "portable"}) {
    if (FindKernels(name) != nullptr) names.emplace_back(name);
  }
  return names;
}

std::unique_ptr<Weight> PackFile(ThreadPool& pool, int type_number, Bytes rows, int64_t n,
                                 int64_t k, ArenaPtr arena, std::optional<std::string> isa) {
  const auto type = static_cast<GgufType>(type_number);
  const int64_t row_bytes = GgufRowBytes(type, k);
  if (row_bytes < 0 || static_cast<int64_t>(rows.nbytes()) != n * row_bytes) {
    throw std::invalid_argument("type " + std::to_string(type_number) + " with " +
                                std::to_string(n) + " x " + std::to_string(k) +
                                " values does not fit " + std::to_string(rows.nbytes()) + " bytes");
  }
  auto weight = std::make_unique<Weight>(Own(arena), PackedFormat(type), n, k, KernelsNamed(isa));
  nb::gil_scoped_release release;
  pool.Run([&](Team& team) {
    team.For(weight->w.tiles(), 8, [&](int64_t begin, int64_t end) {
      PackGguf(type, rows.data(), weight->w, begin, end, weight->bytes);
    });
  });
  return weight;
}

std::unique_ptr<Weight> PackFloats(ThreadPool& pool, Floats2 rows, const std::string& format,
                                   ArenaPtr arena, std::optional<std::string> isa) {
  const Format f =
      format == "int8" ? Format::kQ8_0
      : format == "int4"
          ? Format::kQ4_1
          : throw std::invalid_argument("format '" + format + "'; accepted are int8, int4");
  const auto n = static_cast<int64_t>(rows.shape(0));
  const auto k = static_cast<int64_t>(rows.shape(1));
  if (k % 32 != 0) throw std::invalid_argument("quantised weights need a depth of 32 * n");
  auto weight = std::make_unique<Weight>(Own(arena), f, n, k, KernelsNamed(isa));
  nb::gil_scoped_release release;
  pool.Run([&](Team& team) {
    team.For(weight->w.tiles(), 8, [&](int64_t begin, int64_t end) {
      PackQuantized(rows.data(), weight->w, begin, end, weight->bytes);
    });
  });
  return weight;
}

std::unique_ptr<Weight> Slice(const Weight& weight, int64_t begin, int64_t end) {
  if (begin < 0 || end <= begin || end > weight.w.n || begin % weight.w.nr != 0) {
    throw std::invalid_argument("a slice begins at a multiple of " + std::to_string(weight.w.nr) +
                                " and ends within " + std::to_string(weight.w.n) + " rows; got " +
                                std::to_string(begin) + " to " + std::to_string(end));
  }
  return std::make_unique<Weight>(weight, begin, end);
}

Array<float> UnpackRows(const Weight& weight, int64_t begin, int64_t end) {
  if (begin < 0 || end < begin || end > weight.w.n) throw nb::index_error("rows out of range");
  auto out = NewArray<float>({static_cast<size_t>(end - begin), static_cast<size_t>(weight.w.k)});
  for (int64_t r = begin; r < end; ++r)
    UnpackRow(weight.w, r, out.data() + (r - begin) * weight.w.k);
  return out;
}

}  // namespace

std::pair<Array<float>, Array<float>> Pool::Read(Longs wanted) const {
  const PageBlock* memory[] = {&k, &v, &k_scale, &v_scale};
  Array<float> out[2];
  for (int i = 0; i < 2; ++i) {
    out[i] = NewArray<float>(
        {wanted.size(), static_cast<size_t>(kv_heads), static_cast<size_t>(head_dim)});
    float* to = out[i].data();
    for (size_t t = 0; t < wanted.size(); ++t) {
      const int64_t slot = wanted.data()[t];
      if (slot < 0 || slot >= slots) throw nb::index_error("slot out of range");
      for (int64_t h = 0; h < kv_heads; ++h, to += head_dim) {
        const int64_t row = h * slots + slot;
        const uint8_t* from = memory[i]->data() + row * PaddedHeadDim(head_dim) * SizeOf(type);
        const float scale =
            type == DType::kI8 ? reinterpret_cast<float*>(memory[2 + i]->data())[row] : 1;
        for (int64_t d = 0; d < head_dim; ++d) to[d] = scale * Element(type, from, d);
      }
    }
  }
  return {out[0], out[1]};
}

}  // namespace sgl

NB_MODULE(_native, m) {
  using namespace sgl;
  m.doc() = "CPU kernels: packed weights, recorded forward passes";
  m.def("instruction_sets", &InstructionSets, "Names usable here, best first.");

  nb::class_<ThreadPool>(m, "ThreadPool")
      .def(nb::init<int, int>(), nb::arg("threads"), nb::arg("spin_us") = 50)
      .def_prop_ro("size", &ThreadPool::size);

  nb::class_<WeightArena>(m, "WeightArena", "Shared memory of many weights, on huge pages.")
      .def(nb::init<>())
      .def_prop_ro("used", &WeightArena::used);

  nb::class_<Weight>(m, "Weight")
      .def_prop_ro("n", [](const Weight& w) { return w.w.n; })
      .def_prop_ro("k", [](const Weight& w) { return w.w.k; })
      .def_prop_ro("nbytes", [](const Weight& w) { return PackedBytes(w.w); })
      .def_prop_ro("quantized", [](const Weight& w) { return !IsDense(w.w.format); })
      .def("slice", &Slice, nb::arg("begin"), nb::arg("end"),
           "Rows as a weight of its own, on the same memory.")
      .def("rows", &UnpackRows, nb::arg("begin"), nb::arg("end"), "Rows as float32.");
  m.def("pack", &PackFile, nb::arg("pool"), nb::arg("type"), nb::arg("rows"), nb::arg("n"),
        nb::arg("k"), nb::arg("arena") = nb::none(), nb::arg("isa") = nb::none(),
        "Packs a row-major matrix of a GGUF type number (0 float32, 1 float16, 30 bfloat16, ...).");
  m.def("quantize", &PackFloats, nb::arg("pool"), nb::arg("rows"), nb::arg("format"),
        nb::arg("arena") = nb::none(), nb::arg("isa") = nb::none(),
        "Quantises a float32 matrix to int8 or int4 and packs it.");

  nb::class_<Pool>(
      m, "KvPool",
      "Keys and values of one layer. dtype: float32, float16, bfloat16, or int8 with a "
      "float32 scale for every head of every slot. head_dim: any.")
      .def(nb::init<int64_t, int64_t, int64_t, const std::string&>(), nb::arg("slots"),
           nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("dtype"))
      .def_prop_ro("nbytes", [](const Pool& p) { return 2 * (p.bytes() + p.scale_bytes()); })
      .def("read", &Pool::Read, nb::arg("slots"),
           "Keys and values of slots as float32 [slots, kv_heads, head_dim], for tests.");

  BindProgram(m);
  BindSampling(m);
  BindOps(m);
}
