#include <stdexcept>

#include "tiny_model.h"

namespace sgl::test {
namespace {

std::vector<int64_t> Prompt(int seed, int64_t n) {
  Random rng(static_cast<uint32_t>(seed));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(rng.Int(kVocab));
  return ids;
}

void AgreesWithReference(const Kernels& kernels) {
  Model model(kernels, Format::kF32, DType::kF32);
  for (int64_t n : {1, 2, 70, 130}) {
    Driver d(model, 2, {Prompt(1, n)});
    const std::vector<float> logits = d.Step({{0, n}});
    const std::vector<double> want = model.Reference(Prompt(1, n));
    for (size_t i = 0; i < want.size(); ++i) CHECK_NEAR(logits[i], want[i], 2e-4);
  }
}

void QuantisedStaysNear(const Kernels& kernels, DType kv) {
  Model model(kernels, Format::kQ8_0, kv);
  Driver d(model, 2, {Prompt(1, 70)});
  const std::vector<float> logits = d.Step({{0, 70}});
  const std::vector<double> want = model.Reference(Prompt(1, 70));
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (logits[i] - want[i]) * (logits[i] - want[i]);
    size += want[i] * want[i];
  }
  CHECK(error < 0.001 * size);
}

// The last token's logits have the same bits however the work was cut.
void Invariant(const Kernels& kernels, Format format, DType kv) {
  Model model(kernels, format, kv);
  constexpr int64_t kLength = 150;
  const auto want = [&] {
    Driver d(model, 1, {Prompt(1, kLength)});
    return d.Step({{0, kLength}});
  }();
  for (int threads : {1, 2, 3}) {
    {
      Driver d(model, threads, {Prompt(1, kLength)});
      d.Step({{0, 50}});
      d.Step({{0, 1}});
      d.Step({{0, 60}});
      CHECK(SameBits(want.data(), d.Step({{0, 39}}).data(), kVocab));
    }
    {
      // Last token decoded next to other rows; another row prefilled in the same step.
      Driver d(model, threads, {Prompt(2, 90), Prompt(1, kLength), Prompt(3, 80)});
      d.Step({{0, 20}, {1, 149}});
      const std::vector<float> all = d.Step({{0, 1}, {2, 77}, {1, 1}});
      CHECK(SameBits(want.data(), all.data() + 2 * kVocab, kVocab));
    }
    {
      Driver d(model, threads, {Prompt(1, kLength)});
      d.Step({{0, 100}});
      for (int i = 0; i < 49; ++i) d.Step({{0, 1}});
      CHECK(SameBits(want.data(), d.Step({{0, 1}}).data(), kVocab));
    }
  }
}

// Rows whose tables share their first 128 slots, computed once for all: same bits as apart.
void SharedPrefixes(const Kernels& kernels, DType kv) {
  Model model(kernels, Format::kQ4_1, kv);
  constexpr size_t kRows = 12;
  std::vector<std::vector<int64_t>> prompts;
  std::vector<std::vector<float>> want;
  for (size_t r = 0; r < kRows; ++r) {
    prompts.push_back(Prompt(1, 128));
    const std::vector<int64_t> tail = Prompt(static_cast<int>(10 + r), 5);
    prompts.back().insert(prompts.back().end(), tail.begin(), tail.end());
    Driver alone(model, 1, {prompts.back()});
    want.push_back(alone.Step({{0, 133}}));
  }
  Driver d(model, 2, prompts);
  std::vector<Driver::Piece> pieces;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < 128; ++p) d.table[r * 400 + p] = static_cast<int32_t>(3 * p);
    for (size_t p = 128; p < 133; ++p) {
      d.table[r * 400 + p] = static_cast<int32_t>(400 + r * 5 + p - 128);
    }
    pieces.push_back({static_cast<int64_t>(r), 1});
  }
  d.Step({{0, 128}});
  d.length.assign(kRows, 128);
  std::vector<float> got;
  for (int step = 0; step < 5; ++step) got = d.Step(pieces);
  for (size_t r = 0; r < kRows; ++r) {
    CHECK(SameBits(want[r].data(), got.data() + r * kVocab, kVocab));
  }
  AttentionPlan plan;
  std::vector<int64_t> ones(kRows, 1), lengths(kRows, 133), rows(kRows);
  for (size_t r = 0; r < kRows; ++r) rows[r] = static_cast<int64_t>(r);
  plan.Build({kRows, ones.data(), lengths.data(), rows.data(), d.table.data(), 400}, 3);
  CHECK(plan.shared.size() == 2 + kRows);  // two whole blocks for all, one tail each
  CHECK(plan.shared[0].count == kRows && plan.shared[1].count == kRows);
}

void Candidates(const Kernels& kernels) {
  Model model(kernels, Format::kQ8_0, DType::kBf16);
  const std::vector<std::vector<int64_t>> prompts = {Prompt(4, 9), Prompt(5, 7), Prompt(6, 8)};
  const std::vector<Driver::Piece> pieces = {{0, 9}, {1, 7}, {2, 8}};
  Driver full(model, 2, prompts);
  const std::vector<float> logits = full.Step(pieces);
  for (int threads : {1, 3}) {
    for (int64_t full_rows : {0, 2}) {
      int64_t ids[3], top_ids[3 * 7];
      float values[3], top_values[3 * 7];
      std::vector<float> hidden(3 * kHidden);
      sgl::Step extra;
      extra.full_rows = full_rows;
      extra.best_ids = ids;
      extra.best_values = values;
      extra.top_k = 7;
      extra.top_ids = top_ids;
      extra.top_values = top_values;
      extra.hidden = hidden.data();
      Driver d(model, threads, prompts);
      const std::vector<float> some = d.Step(pieces, &extra);
      CHECK(SameBits(some.data(), logits.data(), full_rows * kVocab));
      for (size_t r = 0; r < 3; ++r) {
        std::vector<int64_t> order(kVocab);
        for (size_t i = 0; i < kVocab; ++i) order[i] = static_cast<int64_t>(i);
        const float* row = logits.data() + r * kVocab;
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return row[a] > row[b]; });
        CHECK(ids[r] == order[0] && values[r] == row[order[0]]);
        for (size_t j = 0; j < 7; ++j) {
          CHECK(top_ids[r * 7 + j] == order[j] && top_values[r * 7 + j] == row[order[j]]);
        }
        CHECK(hidden[r * kHidden] != 0);
      }
      extra.top_k = 0;
      Driver greedy(model, threads, prompts);
      greedy.Step(pieces, &extra);
      for (size_t r = 0; r < 3; ++r) CHECK(ids[r] == top_ids[r * 7]);
    }
  }
}

void RefusesBadSteps(const Kernels& kernels) {
  Model model(kernels, Format::kQ8_0, DType::kF16);
  ThreadPool pool(1);
  int64_t id = 5, position = 0, slot = 1, one = 1, row = 0;
  const std::vector<int32_t> table(400, 1);
  Step s;
  s.tokens = 1;
  s.input_ids = &id;
  s.positions = &position;
  s.out_slots = &slot;
  s.rows = {1, &one, &one, &row, table.data(), 400};
  CHECK(model.program.Run(pool, s).empty());
  id = kVocab;
  CHECK(model.program.Run(pool, s).find("token id 300") == 0);
  id = 5;
  slot = kSlots;
  CHECK(model.program.Run(pool, s).find("slot 700") != std::string::npos);
  slot = 1;
  std::vector<int32_t> bad = table;
  for (int32_t wrong : {-1, static_cast<int32_t>(kSlots), INT32_MIN, INT32_MAX}) {
    bad[0] = wrong;
    s.rows.slot_table = bad.data();
    CHECK(model.program.Run(pool, s).find("slot table holds a slot") != std::string::npos);
  }
  bad[0] = 1;
  bad[1] = -7;  // past the row's end: never read
  CHECK(model.program.Run(pool, s).empty());
  s.tokens = 2;
  CHECK(model.program.Run(pool, s).find("rows hold 1 tokens") == 0);
}

template <class F>
void Throws(F&& f) {
  bool thrown = false;
  try {
    f();
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  CHECK(thrown);
}

void RefusesOperandsThatDoNotFit(const Kernels& kernels) {
  Model model(kernels, Format::kQ8_0, DType::kF16);
  Program p(kernels, 4, kVocab);
  const BufferId x = p.AddFloats(kHidden);
  const BufferId wide = p.AddFloats(kInner);
  const BufferId blocks = p.AddBlocks(kHidden);
  const PackedWeight& gate = model.gate[0]->w;
  Throws([&] { p.AddFloats(0); });
  Throws([&] { p.AddBlocks(40); });
  Throws([&] { p.AddEmbedding(gate, 1, x); });  // fewer rows than the vocabulary
  Throws([&] { p.AddEmbedding(model.embedding.w, 1, wide); });
  Throws([&] { p.AddNorm(x, wide, {}, model.Norm(0, 0), {x, kNone}); });
  Throws([&] { p.AddLinear({x, kNone}, {{gate, nullptr, 0}}, wide, false); });  // wants blocks
  Throws([&] { p.AddLinear({x, blocks}, {{gate, nullptr, 1}}, wide, false); });
  Throws([&] { p.AddLinear({x, blocks}, {{gate, nullptr, 0}}, 17, false); });
  Throws(
      [&] { p.AddGatedLinear({x, blocks}, {gate}, {model.k[0]->w}, Gate::kSilu, {wide, kNone}); });
  Throws([&] { p.AddRopeStore(x, model.shape[0], {}, {}, {}, {}); });
  Throws([&] { p.AddHead(wide, model.Norm(0, 0), model.embedding.w, 0); });
  p.AddLinear({x, blocks}, {{gate, nullptr, 0}}, wide, false);
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  for (const sgl::Kernels* kernels : AllKernels()) {
    std::printf("%s\n", kernels->name);
    AgreesWithReference(*kernels);
    QuantisedStaysNear(*kernels, sgl::DType::kF16);
    QuantisedStaysNear(*kernels, sgl::DType::kI8);
    Invariant(*kernels, sgl::Format::kQ4_1, sgl::DType::kF16);
    Invariant(*kernels, sgl::Format::kBf16, sgl::DType::kBf16);
    Invariant(*kernels, sgl::Format::kQ8_0, sgl::DType::kI8);
    SharedPrefixes(*kernels, sgl::DType::kF16);
    SharedPrefixes(*kernels, sgl::DType::kI8);
    Candidates(*kernels);
    RefusesBadSteps(*kernels);
    RefusesOperandsThatDoNotFit(*kernels);
  }
}
