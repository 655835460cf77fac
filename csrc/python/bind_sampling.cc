// Sampler: logits to tokens.
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "common.h"
#include "sgl/masking.h"
#include "sgl/sampling.h"

namespace sgl {
namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class PySampler {
 public:
  PySampler(int64_t vocab, std::optional<std::string> isa)
      : sampler_(KernelsNamed(isa), Checked(vocab)) {}

  nb::dict Sample(ThreadPool& pool, Floats2 logits, Floats1 temperature, Longs top_k, Doubles top_p,
                  Doubles min_p, Doubles uniform, std::optional<Longs> top_counts) {
    const size_t rows = logits.shape(0);
    const auto vocab = static_cast<int64_t>(logits.shape(1));
    if (vocab != sampler_.vocab()) {
      throw std::invalid_argument("logits have " + std::to_string(vocab) +
                                  " columns; this sampler takes " +
                                  std::to_string(sampler_.vocab()));
    }
    for (size_t size : {temperature.size(), top_k.size(), top_p.size(), min_p.size(),
                        uniform.size(), top_counts ? top_counts->size() : rows}) {
      if (size != rows) {
        throw std::invalid_argument(
            "temperature, top_k, top_p, min_p, uniform and top_counts need "
            "one entry for each of the " +
            std::to_string(rows) + " rows of logits");
      }
    }
    int64_t width = 0;
    for (size_t r = 0; top_counts && r < rows; ++r) {
      width = std::max(width, std::min(top_counts->data()[r], vocab));
    }
    auto tokens = NewArray<int64_t>({rows});
    auto broken = NewArray<bool>({rows});
    auto logprobs = NewArray<double>({rows});
    auto top_ids = NewArray<int64_t>({rows, static_cast<size_t>(width)});
    auto top_values = NewArray<double>({rows, static_cast<size_t>(width)});
    auto max = NewArray<double>({rows});
    auto log_total = NewArray<double>({rows});
    SampleArgs a;
    a.rows = static_cast<int64_t>(rows);
    a.logits = logits.data();
    a.stride = vocab;
    a.temperature = temperature.data();
    a.top_k = top_k.data();
    a.top_p = top_p.data();
    a.min_p = min_p.data();
    a.uniform = uniform.data();
    a.top_counts = top_counts ? top_counts->data() : nullptr;
    a.top_width = width;
    a.tokens = tokens.data();
    a.broken = broken.data();
    a.logprobs = logprobs.data();
    a.top_ids = top_ids.data();
    a.top_values = top_values.data();
    a.max = max.data();
    a.log_total = log_total.data();
    {
      nb::gil_scoped_release release;
      sampler_.Sample(pool, a);
    }
    nb::dict out;
    out["tokens"] = tokens;
    out["broken"] = broken;
    out["logprobs"] = logprobs;
    out["top_ids"] = top_ids;
    out["top_values"] = top_values;
    out["max"] = max;
    out["log_total"] = log_total;
    return out;
  }

 private:
  static int64_t Checked(int64_t vocab) {
    if (vocab < 1 || vocab > INT32_MAX) {
      throw std::invalid_argument("vocabulary of " + std::to_string(vocab) +
                                  "; accepted are 1 to 2^31 - 1");
    }
    return vocab;
  }

  Sampler sampler_;
};

using MutableFloats2 = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void Mask(ThreadPool& pool, MutableFloats2 logits, Longs rows, const nb::list& list) {
  const Masks masks(list);
  if (masks.held.size() != rows.size() || masks.pointers.size() != rows.size()) {
    throw std::invalid_argument(std::to_string(rows.size()) + " rows for " +
                                std::to_string(masks.held.size()) + " masks");
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows.data()[i] < 0 || rows.data()[i] >= static_cast<int64_t>(logits.shape(0))) {
      throw std::invalid_argument("row " + std::to_string(rows.data()[i]) + " of logits with " +
                                  std::to_string(logits.shape(0)) + " rows");
    }
  }
  const auto vocab = static_cast<int64_t>(logits.shape(1));
  nb::gil_scoped_release release;
  MaskLogits(pool, logits.data(), vocab, vocab, rows.data(), masks.pointers.data(),
             masks.words, static_cast<int64_t>(masks.pointers.size()));
}

}  // namespace

Masks::Masks(const nb::list& masks) {
  for (nb::handle item : masks) {
    if (item.is_none()) {
      pointers.push_back(nullptr);
      continue;
    }
    held.push_back(nb::cast<Words>(item));
    const auto size = static_cast<int64_t>(held.back().size());
    if (held.size() > 1 && size != words) {
      throw std::invalid_argument("masks must have the same number of words");
    }
    words = size;
    pointers.push_back(held.back().data());
  }
}

void BindSampling(nb::module_& m) {
  m.def("mask_logits", &Mask, nb::arg("pool"), nb::arg("logits"), nb::arg("rows"), nb::arg("masks"),
        "Sets forbidden tokens to -inf, in place, in the given rows (int64, no row twice) of logits\n"
        "[*, vocab] float32. masks: for each of them an int32 array of words; bit b of word w allows\n"
        "token 32 * w + b, and tokens beyond the words are forbidden.");
  nb::class_<PySampler>(m, "Sampler",
                        "Samples rows of logits; keeps scratch memory, so one call at a time.")
      .def(nb::init<int64_t, std::optional<std::string>>(), nb::arg("vocab"),
           nb::arg("isa") = nb::none())
      .def(
          "sample", &PySampler::Sample, nb::arg("pool"), nb::arg("logits"), nb::arg("temperature"),
          nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"), nb::arg("uniform"),
          nb::arg("top_counts") = nb::none(),
          "One token a row of logits [rows, vocab] float32 (not changed), and a dict of arrays.\n\n"
          "A row is greedy if its top_k is 1 or its temperature not above 0; top_k below 1 keeps\n"
          "all. temperature float32; top_p, min_p, uniform float64 (uniform in (0, 1)); top_k and\n"
          "top_counts int64. top_counts: best tokens whose logprobs are wanted, -1 (as without "
          "it):\n"
          "no logprobs for that row.\n\n"
          "tokens int64 [rows]; broken bool [rows]: NaN or no finite maximum (then the values "
          "that\n"
          "are no numbers count as -1e5 and the token is the argmax); logprobs float64 [rows] of "
          "the\n"
          "tokens after temperature, before filters; top_ids, top_values [rows, widest "
          "top_counts],\n"
          "filled up with -1 and 0; max, log_total [rows]: token i has the logprob\n"
          "(logits[i] - max) / temperature - log_total.");
}

}  // namespace sgl
