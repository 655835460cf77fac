#include "check.h"
#include "half.h"

namespace sgl::test {
namespace {

// A KV pool with scattered slots for one row of `length` positions.
struct Pool {
  AttentionShape shape;
  int64_t padded;
  std::vector<float> k, v;  // as the kernel sees them, [kv_heads, slots, padded head_dim]
  std::vector<uint8_t> k_bytes, v_bytes;
  std::vector<float> k_scale, v_scale;  // int8 only
  std::vector<int32_t> slots;
  int64_t count;  // slots of the pool

  Pool(AttentionShape s, int length, Random& rng)
      : shape(s),
        padded(PaddedHeadDim(s.head_dim)),
        slots(static_cast<size_t>(length)),
        count(int64_t{length} * 2) {
    Fill(count * s.kv_heads * padded, rng, k, k_bytes, k_scale);
    Fill(count * s.kv_heads * padded, rng, v, v_bytes, v_scale);
    for (int i = 0; i < length; ++i) slots[static_cast<size_t>(i)] = (i * 7 + 3) % (2 * length);
  }

  void Fill(int64_t n, Random& rng, std::vector<float>& x, std::vector<uint8_t>& bytes,
            std::vector<float>& scale) {
    x = rng.Floats(n);
    for (int64_t i = 0; i < n; ++i) {
      if (i % padded >= shape.head_dim) x[static_cast<size_t>(i)] = 0;
    }
    bytes.resize(static_cast<size_t>(n * SizeOf(shape.kv_type)));
    if (shape.kv_type == DType::kI8) {
      scale.resize(static_cast<size_t>(n / padded));
      for (int64_t row = 0; row < n / padded; ++row) {
        int8_t* q = reinterpret_cast<int8_t*>(bytes.data()) + row * padded;
        float* s = scale.data() + row;
        BestKernels().store_i8(x.data() + row * padded, shape.head_dim, q, s);
        for (int64_t i = 0; i < shape.head_dim; ++i) {
          CHECK_NEAR(*s * q[i], x[static_cast<size_t>(row * padded + i)], *s * 0.5001);
          x[static_cast<size_t>(row * padded + i)] = *s * q[i];
        }
      }
      return;
    }
    BestKernels().store_as(x.data(), n, shape.kv_type, bytes.data());
    for (int64_t i = 0; i < n && shape.kv_type != DType::kF32; ++i) {
      uint16_t h;
      std::memcpy(&h, bytes.data() + 2 * i, 2);
      x[static_cast<size_t>(i)] = shape.kv_type == DType::kF16 ? HalfToFloat(h) : Bf16ToFloat(h);
    }
  }

  const float* Row(const std::vector<float>& x, int position, int head) const {
    return x.data() + (int64_t{head} * count + slots[static_cast<size_t>(position)]) * padded;
  }
};

std::vector<double> Reference(const Pool& p, const float* q, int kv_head, int position) {
  const AttentionShape& s = p.shape;
  std::vector<double> score;
  const int first = s.window > 0 ? std::max(0, position + 1 - s.window) : 0;
  double top = -1e300;
  for (int j = first; j <= position; ++j) {
    double dot = 0;
    for (int d = 0; d < s.head_dim; ++d) dot += double{q[d]} * p.Row(p.k, j, kv_head)[d];
    dot *= s.scale;
    if (s.softcap > 0) dot = s.softcap * std::tanh(dot / s.softcap);
    score.push_back(dot);
    top = std::max(top, dot);
  }
  double sum = 0;
  std::vector<double> out(static_cast<size_t>(s.head_dim));
  for (int j = first; j <= position; ++j) {
    const double w = std::exp(score[static_cast<size_t>(j - first)] - top);
    sum += w;
    for (int d = 0; d < s.head_dim; ++d) {
      out[static_cast<size_t>(d)] += w * p.Row(p.v, j, kv_head)[d];
    }
  }
  for (double& x : out) x /= sum;
  return out;
}

// Attention of `queries` consecutive positions ending at the last one, `batch` of them per pass.
std::vector<float> Run(const Kernels& kernels, const Pool& p, const std::vector<float>& q,
                       int kv_head, int batch) {
  const int head_dim = p.shape.head_dim;
  const int queries = static_cast<int>(q.size()) / head_dim;
  const int length = static_cast<int>(p.slots.size());
  std::vector<float> scratch(static_cast<size_t>(AttentionScratchFloats(head_dim)));
  std::vector<float> out(q.size(), 99);
  for (int begin = 0; begin < queries; begin += batch) {
    const int count = std::min(batch, queries - begin);
    const auto width = static_cast<size_t>(PartialFloats(head_dim));
    std::vector<float> partial(width * static_cast<size_t>(count));
    std::vector<float> running(partial.size());
    std::vector<const float*> q_rows;
    std::vector<float*> partial_rows;
    std::vector<int32_t> positions;
    for (int i = 0; i < count; ++i) {
      q_rows.push_back(q.data() + (begin + i) * head_dim);
      partial_rows.push_back(partial.data() + width * static_cast<size_t>(i));
      positions.push_back(length - queries + begin + i);
      running[width * static_cast<size_t>(i) + width - 2] = -INFINITY;
    }
    for (int first = 0; first <= positions.back(); first += 64) {
      AttentionBlockArgs a;
      a.shape = &p.shape;
      const int64_t head = kv_head * p.count * p.padded * SizeOf(p.shape.kv_type);
      a.k = p.k_bytes.data() + head;
      a.v = p.v_bytes.data() + head;
      if (p.shape.kv_type == DType::kI8) {
        a.k_scale = p.k_scale.data() + kv_head * p.count;
        a.v_scale = p.v_scale.data() + kv_head * p.count;
      }
      a.slots = p.slots.data() + first;
      a.first_position = first;
      a.positions = std::min(64, positions.back() + 1 - first);
      a.queries = count;
      a.q = q_rows.data();
      a.query_positions = positions.data();
      a.partial = partial_rows.data();
      a.scratch = scratch.data();
      kernels.attention_block(a);
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        kernels.attention_merge(partial_rows[i], head_dim, running.data() + width * i);
      }
    }
    for (int i = 0; i < count; ++i) {
      kernels.attention_finish(running.data() + width * static_cast<size_t>(i), head_dim,
                               out.data() + (begin + i) * head_dim);
    }
  }
  return out;
}

void AgreesAndIsInvariant(const Kernels& kernels, AttentionShape shape, int length, int queries) {
  Random rng(static_cast<uint32_t>(length * 10 + queries));
  const Pool p(shape, length, rng);
  const std::vector<float> q = rng.Floats(int64_t{queries} * shape.head_dim);
  const int kv_head = shape.kv_heads - 1;
  const std::vector<float> out = Run(kernels, p, q, kv_head, 64);
  for (int i = 0; i < queries; ++i) {
    const std::vector<double> want =
        Reference(p, q.data() + i * shape.head_dim, kv_head, length - queries + i);
    for (int d = 0; d < shape.head_dim; ++d) {
      CHECK_NEAR(out[static_cast<size_t>(i * shape.head_dim + d)], want[static_cast<size_t>(d)],
                 2e-5);
    }
  }
  for (int batch : {1, 2, 3, 4, 7, 16}) {
    const std::vector<float> again = Run(kernels, p, q, kv_head, batch);
    CHECK(SameBits(out.data(), again.data(), static_cast<int64_t>(out.size())));
  }
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  for (const sgl::Kernels* kernels : AllKernels()) {
    std::printf("%s\n", kernels->name);
    for (int head_dim : {1, 20, 40, 64, 80, 96, 128, 256}) {
      for (sgl::DType type :
           {sgl::DType::kF32, sgl::DType::kF16, sgl::DType::kBf16, sgl::DType::kI8}) {
        sgl::AttentionShape shape;
        shape.kv_heads = 2;
        shape.head_dim = head_dim;
        shape.kv_type = type;
        shape.scale = 0.125f;
        AgreesAndIsInvariant(*kernels, shape, 1, 1);
        AgreesAndIsInvariant(*kernels, shape, 131, 70);
        shape.window = 40;
        shape.softcap = 5;
        AgreesAndIsInvariant(*kernels, shape, 193, 66);
      }
    }
  }
}
