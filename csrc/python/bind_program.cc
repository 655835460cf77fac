// Program: a forward pass, recorded once and replayed each step.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <tuple>
#include <vector>

#include "common.h"

namespace sgl {
namespace {

using ActivationIds = std::tuple<BufferId, BufferId>;  // floats, blocks; -1 = none

Activations FromIds(ActivationIds ids) { return {std::get<0>(ids), std::get<1>(ids)}; }

class PyProgram {
 public:
  PyProgram(int64_t max_tokens, int64_t vocab, std::optional<std::string> isa)
      : kernels_(KernelsNamed(isa)), program_(kernels_, max_tokens, vocab), vocab_(vocab) {}

  BufferId AddFloats(int64_t width) { return program_.AddFloats(width); }
  BufferId AddBlocks(int64_t width, bool centered) { return program_.AddBlocks(width, centered); }

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

  Array<float> Read(BufferId buffer, int64_t rows) {
    const int64_t width = program_.Width(buffer);
    CheckRows(rows);
    auto out = NewArray<float>({static_cast<size_t>(rows), static_cast<size_t>(width)});
    if (const float* floats = program_.Floats(buffer)) {
      std::memcpy(out.data(), floats, out.nbytes());
      return out;
    }
    const QBlock* blocks = program_.Blocks(buffer);
    for (int64_t i = 0; i < rows * width; ++i) {
      out.data()[i] = blocks[i / 32].scale * static_cast<float>(blocks[i / 32].q[i % 32]);
    }
    return out;
  }

  void Write(BufferId buffer, Floats2 values) {
    const int64_t width = program_.Width(buffer);
    CheckRows(static_cast<int64_t>(values.shape(0)));
    if (static_cast<int64_t>(values.shape(1)) != width) {
      throw std::invalid_argument("values have width " + std::to_string(values.shape(1)) +
                                  ", the buffer " + std::to_string(width));
    }
    if (float* floats = program_.Floats(buffer)) {
      std::memcpy(floats, values.data(), values.nbytes());
      return;
    }
    for (size_t r = 0; r < values.shape(0); ++r) {
      kernels_.quantize(values.data() + static_cast<int64_t>(r) * width, width,
                        program_.Blocks(buffer) + static_cast<int64_t>(r) * width / 32);
    }
  }

  void Profile(bool on) { program_.Profile(on); }
  std::vector<std::pair<std::string, double>> Times() const { return program_.Times(); }

  nb::dict Run(ThreadPool& pool, Longs input_ids, Longs positions, Longs out_slots,
               Longs query_lens, Longs seq_lens, Longs table_rows, Table slot_table,
               Longs output_tokens, int64_t full_rows, int64_t top_k, bool hidden,
               const std::optional<nb::list>& masks) {
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
    const Masks held(masks.value_or(nb::list()));
    if (masks && held.pointers.size() != outputs) {
      throw std::invalid_argument("masks need one entry an output");
    }
    step.masks = masks ? held.pointers.data() : nullptr;
    step.mask_words = held.words;
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
  void CheckRows(int64_t rows) const {
    if (rows < 0 || rows > program_.max_tokens()) {
      throw std::invalid_argument("buffers hold 0 to " + std::to_string(program_.max_tokens()) +
                                  " rows; got " + std::to_string(rows));
    }
  }

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

void BindProgram(nb::module_& m) {
  nb::class_<PyProgram>(m, "Program")
      .def(nb::init<int64_t, int64_t, std::optional<std::string>>(), nb::arg("max_tokens"),
           nb::arg("vocab"), nb::arg("isa") = nb::none())
      .def("add_floats", &PyProgram::AddFloats, nb::arg("width"))
      .def("add_blocks", &PyProgram::AddBlocks, nb::arg("width"), nb::arg("centered") = false)
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
      .def("read", &PyProgram::Read, nb::arg("buffer"), nb::arg("rows"),
           "The first rows of a buffer as float32, for tests of single operations.")
      .def("write", &PyProgram::Write, nb::arg("buffer"), nb::arg("values"),
           "Fills the first rows of a buffer with float32 values (quantised if it holds blocks).")
      .def("profile", &PyProgram::Profile, nb::arg("on"), "Start (cleared) or stop measuring.")
      .def("times", &PyProgram::Times, "(name, seconds) of each operation, summed over runs.")
      .def("run", &PyProgram::Run, nb::arg("pool"), nb::arg("input_ids"), nb::arg("positions"),
           nb::arg("out_slots"), nb::arg("query_lens"), nb::arg("seq_lens"), nb::arg("table_rows"),
           nb::arg("slot_table"), nb::arg("output_tokens"), nb::arg("full_rows") = 0,
           nb::arg("top_k") = 0, nb::arg("hidden") = false,
           nb::arg("masks") = nb::none(),
           "One step. Returns logits of the first full_rows outputs, argmax, candidates, states.\n"
           "masks: for each output None or words as mask_logits takes them, for argmax and "
           "candidates\nof the outputs past full_rows.");
}

}  // namespace sgl
