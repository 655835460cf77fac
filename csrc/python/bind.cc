// The only file that knows Python: numpy arrays in, numpy arrays out, the GIL released while
// computing. Objects keep what they point to alive.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "sgl/arena.h"
#include "sgl/program.h"

namespace nb = nanobind;

namespace sgl {
namespace {

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

const Kernels& KernelsNamed(const std::optional<std::string>& name) {
  if (!name) return BestKernels();
  const Kernels* kernels = FindKernels(name->c_str());
  if (kernels == nullptr) {
    throw std::invalid_argument("instruction set '" + *name +
                                "' is not built or not supported here; accepted are those of "
                                "instruction_sets()");
  }
  return *kernels;
}

std::vector<std::string> InstructionSets() {
  std::vector<std::string> names;
  for (const char* name : {"avx512", "avx2", "neon", "portable"}) {
    if (FindKernels(name) != nullptr) names.emplace_back(name);
  }
  return names;
}

DType DTypeNamed(const std::string& name) {
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

ArenaPtr Own(ArenaPtr arena) { return arena ? arena : std::make_shared<WeightArena>(1); }

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

// x w^T in one call; quantised weights see int8 activations, as in a program.
Array<float> Linear(ThreadPool& pool, const Weight& weight, Floats2 x) {
  const PackedWeight& w = weight.w;
  const auto rows = static_cast<int64_t>(x.shape(0));
  if (static_cast<int64_t>(x.shape(1)) != w.k) {
    throw std::invalid_argument("x has depth " + std::to_string(x.shape(1)) + ", the weight " +
                                std::to_string(w.k));
  }
  auto out = NewArray<float>({x.shape(0), static_cast<size_t>(w.n)});
  nb::gil_scoped_release release;
  std::vector<QBlock> blocks;
  MatmulArgs a;
  a.w = &w;
  a.x = x.data();
  a.x_stride = w.k;
  a.out = out.data();
  a.out_stride = w.n;
  if (!IsDense(w.format)) {
    blocks.resize(static_cast<size_t>(rows * w.k / 32));
    for (int64_t r = 0; r < rows; ++r) {
      weight.kernels->quantize(x.data() + r * w.k, w.k, blocks.data() + r * w.k / 32);
    }
    a.x = blocks.data();
    a.x_stride = w.k / 32;
  }
  pool.Run([&](Team& team) {
    team.For(w.tiles(), 4,
             [&](int64_t begin, int64_t end) { weight.kernels->matmul(a, 0, rows, begin, end); });
  });
  return out;
}

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

  int64_t scale_bytes() const { return type == DType::kI8 ? slots * kv_heads * 4 : 0; }
  int64_t bytes() const { return slots * kv_heads * PaddedHeadDim(head_dim) * SizeOf(type); }
};

using ActivationIds = std::tuple<BufferId, BufferId>;  // floats, blocks; -1 = none

Activations FromIds(ActivationIds ids) { return {std::get<0>(ids), std::get<1>(ids)}; }

class PyProgram {
 public:
  PyProgram(int64_t max_tokens, int64_t vocab, std::optional<std::string> isa)
      : kernels_(KernelsNamed(isa)), program_(kernels_, max_tokens, vocab), vocab_(vocab) {}

  BufferId AddFloats(int64_t width) { return program_.AddFloats(width); }
  BufferId AddBlocks(int64_t width) { return program_.AddBlocks(width); }

  void AddEmbedding(nb::object table, float scale, BufferId out) {
    program_.AddEmbedding(Hold(table), scale, out);
  }

  void AddNorm(BufferId x, Floats1 weight, float eps, ActivationIds out, BufferId addend,
               std::optional<Floats1> addend_weight, std::optional<float> addend_eps) {
    const int64_t width = program_.Width(x);
    program_.AddNorm(x, addend, Norm(addend_weight, addend_eps.value_or(eps), width),
                     Norm(std::optional<Floats1>(weight), eps, width), FromIds(out));
  }

  void AddLinear(ActivationIds in,
                 std::vector<std::tuple<nb::object, std::optional<Floats1>, int64_t>> parts,
                 BufferId out, bool accumulate) {
    std::vector<LinearPart> list;
    for (auto& [weight, bias, column] : parts) {
      const PackedWeight& w = Hold(weight);
      list.push_back({w, KeepVector(bias, w.n, "bias"), column});
    }
    program_.AddLinear(FromIds(in), std::move(list), out, accumulate);
  }

  void AddGatedLinear(ActivationIds in, nb::object gate, nb::object up, const std::string& kind,
                      ActivationIds out, std::optional<Floats1> gate_bias,
                      std::optional<Floats1> up_bias) {
    if (kind != "silu" && kind != "gelu_tanh") {
      throw std::invalid_argument("gate '" + kind + "'; accepted are silu, gelu_tanh");
    }
    const PackedWeight& g = Hold(gate);
    const PackedWeight& u = Hold(up);
    program_.AddGatedLinear(FromIds(in), {g, KeepVector(gate_bias, g.n, "gate bias"), 0},
                            {u, KeepVector(up_bias, u.n, "up bias"), 0},
                            kind == "silu" ? Gate::kSilu : Gate::kGeluTanh, FromIds(out));
  }

  void AddRopeStore(BufferId qkv, int32_t heads, nb::object pool, std::optional<Floats2> cos,
                    std::optional<Floats2> sin, bool interleaved, std::optional<Floats1> q_norm,
                    std::optional<Floats1> k_norm, float eps) {
    RopeArgs rope;
    if (cos && sin) {
      if (cos->shape(0) != sin->shape(0) || cos->shape(1) != sin->shape(1)) {
        throw std::invalid_argument("cos and sin must have the same shape");
      }
      rope.cos = Keep(cos);
      rope.sin = Keep(sin);
      rope.positions = static_cast<int64_t>(cos->shape(0));
      rope.rotary_dim = static_cast<int32_t>(cos->shape(1)) * 2;
      rope.interleaved = interleaved;
    }
    const AttentionShape shape = Shape(heads, pool, 1, 0, 0);
    program_.AddRopeStore(qkv, shape, Norm(q_norm, eps, shape.head_dim),
                          Norm(k_norm, eps, shape.head_dim), rope, HoldPool(pool));
  }

  void AddAttention(BufferId qkv, int32_t heads, nb::object pool, float scale, float softcap,
                    int32_t window, ActivationIds out) {
    program_.AddAttention(qkv, Shape(heads, pool, scale, softcap, window), HoldPool(pool),
                          FromIds(out));
  }

  void AddHead(BufferId x, Floats1 weight, float eps, nb::object head, float softcap) {
    const PackedWeight& w = Hold(head);
    program_.AddHead(x, Norm(std::optional<Floats1>(weight), eps, w.k), w, softcap);
    hidden_ = w.k;
  }

  void Profile(bool on) { program_.Profile(on); }
  std::vector<std::pair<std::string, double>> Times() const { return program_.Times(); }

  nb::dict Run(ThreadPool& pool, Longs input_ids, Longs positions, Longs out_slots,
               Longs query_lens, Longs seq_lens, Longs table_rows, Table slot_table,
               Longs output_tokens, int64_t full_rows, int64_t top_k, bool hidden) {
    const size_t tokens = input_ids.size();
    const size_t rows = query_lens.size();
    const size_t outputs = output_tokens.size();
    if (positions.size() != tokens || out_slots.size() != tokens || seq_lens.size() != rows ||
        table_rows.size() != rows || full_rows < 0 || full_rows > static_cast<int64_t>(outputs) ||
        top_k < 0 || top_k > vocab_) {
      throw std::invalid_argument(
          "positions and out_slots need one entry a token, seq_lens and "
          "table_rows one a row, full_rows at most the outputs, top_k at most the vocabulary");
    }
    for (size_t r = 0; r < rows; ++r) {
      if (table_rows.data()[r] < 0 ||
          table_rows.data()[r] >= static_cast<int64_t>(slot_table.shape(0))) {
        throw std::invalid_argument("table row " + std::to_string(table_rows.data()[r]) +
                                    " is not in the slot table");
      }
    }
    auto logits = NewArray<float>({static_cast<size_t>(full_rows), static_cast<size_t>(vocab_)});
    auto best_ids = NewArray<int64_t>({outputs});
    auto best_values = NewArray<float>({outputs});
    auto top_ids = NewArray<int64_t>({outputs, static_cast<size_t>(top_k)});
    auto top_values = NewArray<float>({outputs, static_cast<size_t>(top_k)});
    auto states = NewArray<float>({hidden ? outputs : 0, static_cast<size_t>(hidden_)});
    Step step;
    step.tokens = static_cast<int64_t>(tokens);
    step.input_ids = input_ids.data();
    step.positions = positions.data();
    step.out_slots = out_slots.data();
    step.rows = {
        static_cast<int64_t>(rows), query_lens.data(), seq_lens.data(),
        table_rows.data(),          slot_table.data(), static_cast<int64_t>(slot_table.shape(1))};
    step.outputs = static_cast<int64_t>(outputs);
    step.output_tokens = output_tokens.data();
    step.full_rows = full_rows;
    step.logits = logits.data();
    step.best_ids = best_ids.data();
    step.best_values = best_values.data();
    step.top_k = top_k;
    step.top_ids = top_ids.data();
    step.top_values = top_values.data();
    step.hidden = hidden ? states.data() : nullptr;
    std::string error;
    {
      nb::gil_scoped_release release;
      error = program_.Run(pool, step);
    }
    if (!error.empty()) throw std::invalid_argument(error);
    nb::dict out;
    out["logits"] = logits;
    out["best_ids"] = best_ids;
    out["best_values"] = best_values;
    out["top_ids"] = top_ids;
    out["top_values"] = top_values;
    out["hidden"] = states;
    return out;
  }

 private:
  const PackedWeight& Hold(nb::object weight) {
    Weight& w = nb::cast<Weight&>(weight);
    if (w.w.nr != kernels_.nr) {
      throw std::invalid_argument("the weight was packed for another instruction set");
    }
    held_.push_back(weight);
    return w.w;
  }

  KvPool HoldPool(nb::object pool) {
    Pool& p = nb::cast<Pool&>(pool);
    held_.push_back(pool);
    KvPool out;
    out.k = p.k.data();
    out.v = p.v.data();
    if (p.type == DType::kI8) {
      out.k_scale = reinterpret_cast<float*>(p.k_scale.data());
      out.v_scale = reinterpret_cast<float*>(p.v_scale.data());
    }
    out.slots = p.slots;
    return out;
  }

  AttentionShape Shape(int32_t heads, nb::object pool, float scale, float softcap, int32_t window) {
    const Pool& p = nb::cast<Pool&>(pool);
    AttentionShape s;
    s.heads = heads;
    s.kv_heads = static_cast<int32_t>(p.kv_heads);
    s.head_dim = static_cast<int32_t>(p.head_dim);
    s.kv_type = p.type;
    s.scale = scale;
    s.softcap = softcap;
    s.window = window;
    return s;
  }

  template <class T>
  const float* Keep(const std::optional<T>& array) {
    if (!array) return nullptr;
    held_.push_back(nb::cast(*array));
    return array->data();
  }

  const float* KeepVector(const std::optional<Floats1>& array, int64_t size, const char* what) {
    if (array && static_cast<int64_t>(array->size()) != size) {
      throw std::invalid_argument(std::string(what) + " has " + std::to_string(array->size()) +
                                  " values; it needs " + std::to_string(size));
    }
    return Keep(array);
  }

  NormSpec Norm(const std::optional<Floats1>& weight, float eps, int64_t width) {
    return {KeepVector(weight, width, "norm weight"), eps};
  }

  const Kernels& kernels_;
  Program program_;
  int64_t vocab_;
  int64_t hidden_ = 0;
  std::vector<nb::object> held_;
};

}  // namespace
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
  m.def("linear", &Linear, nb::arg("pool"), nb::arg("weight"), nb::arg("x"));

  nb::class_<Pool>(
      m, "KvPool",
      "Keys and values of one layer. dtype: float32, float16, bfloat16, or int8 with a "
      "float32 scale for every head of every slot. head_dim: any.")
      .def(nb::init<int64_t, int64_t, int64_t, const std::string&>(), nb::arg("slots"),
           nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("dtype"))
      .def_prop_ro("nbytes", [](const Pool& p) { return 2 * (p.bytes() + p.scale_bytes()); });

  nb::class_<PyProgram>(m, "Program")
      .def(nb::init<int64_t, int64_t, std::optional<std::string>>(), nb::arg("max_tokens"),
           nb::arg("vocab"), nb::arg("isa") = nb::none())
      .def("add_floats", &PyProgram::AddFloats, nb::arg("width"))
      .def("add_blocks", &PyProgram::AddBlocks, nb::arg("width"))
      .def("add_embedding", &PyProgram::AddEmbedding, nb::arg("table"), nb::arg("scale"),
           nb::arg("out"))
      .def("add_norm", &PyProgram::AddNorm, nb::arg("x"), nb::arg("weight"), nb::arg("eps"),
           nb::arg("out"), nb::arg("addend") = kNone, nb::arg("addend_weight") = nb::none(),
           nb::arg("addend_eps") = nb::none(),
           "x += addend, or its norm with addend_weight and addend_eps (default: eps); then out = "
           "rms_norm(x), nothing where out is (-1, -1).")
      .def("add_linear", &PyProgram::AddLinear, nb::arg("input"), nb::arg("parts"), nb::arg("out"),
           nb::arg("accumulate") = false)
      .def("add_gated_linear", &PyProgram::AddGatedLinear, nb::arg("input"), nb::arg("gate"),
           nb::arg("up"), nb::arg("kind"), nb::arg("out"), nb::arg("gate_bias") = nb::none(),
           nb::arg("up_bias") = nb::none(), "out = act(gate(x)) * up(x); kind: silu or gelu_tanh.")
      .def("add_rope_store", &PyProgram::AddRopeStore, nb::arg("qkv"), nb::arg("heads"),
           nb::arg("pool"), nb::arg("cos") = nb::none(), nb::arg("sin") = nb::none(),
           nb::arg("interleaved") = false, nb::arg("q_norm") = nb::none(),
           nb::arg("k_norm") = nb::none(), nb::arg("eps") = 1e-6f)
      .def("add_attention", &PyProgram::AddAttention, nb::arg("qkv"), nb::arg("heads"),
           nb::arg("pool"), nb::arg("scale"), nb::arg("softcap") = 0.0f, nb::arg("window") = 0,
           nb::arg("out"))
      .def("add_head", &PyProgram::AddHead, nb::arg("x"), nb::arg("weight"), nb::arg("eps"),
           nb::arg("head"), nb::arg("softcap") = 0.0f)
      .def("profile", &PyProgram::Profile, nb::arg("on"), "Start (cleared) or stop measuring.")
      .def("times", &PyProgram::Times, "(name, seconds) of each operation, summed over runs.")
      .def("run", &PyProgram::Run, nb::arg("pool"), nb::arg("input_ids"), nb::arg("positions"),
           nb::arg("out_slots"), nb::arg("query_lens"), nb::arg("seq_lens"), nb::arg("table_rows"),
           nb::arg("slot_table"), nb::arg("output_tokens"), nb::arg("full_rows") = 0,
           nb::arg("top_k") = 0, nb::arg("hidden") = false,
           "One step. Returns logits of the first full_rows outputs, argmax, candidates, states.");
}
