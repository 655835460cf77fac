// Picks an instruction set at run time from what the build compiled.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sgl/kernels.h"

#if defined(SGL_HAVE_NEON) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace sgl {

#define SGL_DECLARE(isa)       \
  namespace isa {              \
  extern const Kernels kTable; \
  }
SGL_DECLARE(portable)
#if defined(SGL_HAVE_X86)
SGL_DECLARE(avx2)
SGL_DECLARE(avx512)
#endif
#if defined(SGL_HAVE_NEON)
SGL_DECLARE(neon)
#endif
#undef SGL_DECLARE

namespace {

#if defined(SGL_HAVE_X86)
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(SGL_HAVE_NEON)
bool HasDotProduct() {
#if defined(__linux__)
  constexpr unsigned long kAsimdDp = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kAsimdDp) != 0;
#else
  return true;  // every 64-bit Mac has it
#endif
}
#endif

}  // namespace

const Kernels* FindKernels(const char* name) {
#if defined(SGL_HAVE_X86)
  if (std::strcmp(name, "avx512") == 0) return HasAvx512() ? &avx512::kTable : nullptr;
  if (std::strcmp(name, "avx2") == 0) return HasAvx2() ? &avx2::kTable : nullptr;
#endif
#if defined(SGL_HAVE_NEON)
  if (std::strcmp(name, "neon") == 0) return HasDotProduct() ? &neon::kTable : nullptr;
#endif
  return std::strcmp(name, "portable") == 0 ? &portable::kTable : nullptr;
}

namespace {

// SGLANG_ISA asks for a weaker set than the machine's best: to compare, or to find out whether a set is at fault.
const Kernels& ChooseKernels() {
  if (const char* wanted = std::getenv("SGLANG_ISA")) {
    if (const Kernels* k = FindKernels(wanted)) return *k;
    std::fprintf(stderr, "SGLANG_ISA=%s is not available here; accepted: avx512, avx2, neon, portable\n", wanted);
  }
  constexpr const char* kBestFirst[] = {"avx512", "avx2", "neon"};
  for (const char* name : kBestFirst) {
    if (const Kernels* k = FindKernels(name)) return *k;
  }
  return portable::kTable;
}

}  // namespace

const Kernels& BestKernels() {
  static const Kernels& best = ChooseKernels();
  return best;
}

}  // namespace sgl
