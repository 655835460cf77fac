#include "kernels/table.h"

#define SGL_TEXT_(x) #x
#define SGL_TEXT(x) SGL_TEXT_(x)

namespace sgl::SGL_ISA {
namespace {

void Matmul(const MatmulArgs& a, int64_t r0, int64_t r1, int64_t t0, int64_t t1) {
  const bool dense =
      a.w->format == Format::kF32 || a.w->format == Format::kF16 || a.w->format == Format::kBf16;
  (dense ? MatmulDense : MatmulQuant)(a, r0, r1, t0, t1);
}

}  // namespace

extern const Kernels kTable;
const Kernels kTable = {
    SGL_TEXT(SGL_ISA),
    kLanes,
    Quantize,
    QuantizeCentered,
    Matmul,
    RmsNorm,
    AddScaled,
    Glu,
    Rope,
    StoreAs,
    StoreInt8,
    AttentionBlock,
    AttentionMerge,
    AttentionFinish,
    ArgMax,
    AnyAbove,
    SoftCap,
    HasNaN,
    SoftmaxWeights,
    RankKeys,
    ProbeInt8,
    ProbeF32,
};

}  // namespace sgl::SGL_ISA
