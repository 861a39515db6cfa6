// The parameter table: GPT-2's tensors, counted once, initialised the same for every layout.
#include "model/parameters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.hpp"

namespace pipefill {
namespace {

TEST(Parameters, Gpt2SmallHasItsKnownSize) {
  const ModelShape gpt2{.layers = 12, .channels = 768, .heads = 12, .context = 1024, .vocab = 50257};
  const ParameterTable table = parameter_table(gpt2, cut_layers_by_cost(gpt2, 4));
  EXPECT_EQ(parameter_count(table), 124'439'808);  // the published GPT-2 124M
  EXPECT_EQ(table.size(), 148U);                   // FORMATS: tensors of the hub's file, masks aside
  ModelShape untied = gpt2;
  untied.tied = false;
  EXPECT_EQ(parameter_count(parameter_table(untied, cut_layers_by_cost(untied, 1))), 124'439'808 + 50257 * 768);
}

TEST(Parameters, NamesAreUniqueAndTheOrderDoesNotDependOnTheCut) {
  const ModelShape shape{.layers = 5, .channels = 8, .heads = 2, .context = 4, .vocab = 11, .tied = false};
  const ParameterTable whole = parameter_table(shape, cut_layers_by_cost(shape, 1));
  std::set<std::string> names;
  for (const TensorSpec& tensor : whole) names.insert(tensor.name);
  EXPECT_EQ(names.size(), whole.size());
  EXPECT_TRUE(names.contains("block.3.attention.qkv.weight"));
  const ParameterTable cut = parameter_table(shape, cut_layers_by_cost(shape, 4));
  ASSERT_EQ(cut.size(), whole.size());
  for (std::size_t i = 0; i < cut.size(); ++i) {
    EXPECT_EQ(cut[i].name, whole[i].name);
    EXPECT_EQ(cut[i].shape, whole[i].shape);
    EXPECT_EQ(cut[i].decay == Decay::yes, cut[i].shape.size() == 2);
  }
  EXPECT_EQ(cut.front().chunk, ModelChunkId{0});
  EXPECT_EQ(cut.back().name, "head.weight");
  EXPECT_EQ(cut.back().chunk, ModelChunkId{3});
}

TEST(Parameters, InitialValuesHaveTheRightMomentsAndAreDifferentStreams) {
  const ModelShape shape{.layers = 8, .channels = 64, .heads = 2, .context = 16, .vocab = 1000};
  const ParameterTable table = parameter_table(shape, cut_layers_by_cost(shape, 1));
  std::set<float> first_values;
  int normals = 0;
  for (const TensorSpec& tensor : table) {
    std::vector<float> x(static_cast<std::size_t>(tensor.elements()));
    initialise(tensor, 5, 0, x);
    if (tensor.initial != Initial::normal) {
      const bool gain = tensor.name.find("norm.weight") != std::string::npos;
      for (float v : x) ASSERT_EQ(v, gain ? 1.0F : 0.0F) << tensor.name;
      continue;
    }
    ++normals, first_values.insert(x[0]);
    double sum = 0, squares = 0;
    for (float v : x) sum += v, squares += static_cast<double>(v) * v;
    const auto n = static_cast<double>(x.size());
    const bool onto_residual = tensor.name.find("projection") != std::string::npos;
    const double sigma = onto_residual ? 0.02 / 4 : 0.02;  // sqrt(2 * 8) = 4
    EXPECT_NEAR(sum / n, 0, 5 * sigma / std::sqrt(n)) << tensor.name;
    EXPECT_NEAR(std::sqrt(squares / n), sigma, 5 * sigma / std::sqrt(2 * n)) << tensor.name;
  }
  EXPECT_EQ(static_cast<int>(first_values.size()), normals);
}

TEST(Parameters, AnyPartHasTheValuesOfTheWhole) {
  const TensorSpec tensor{"a.weight", {7, 9}, Initial::normal, 0.5, Decay::yes, {}, {}};
  std::vector<float> whole(63), other_seed(63);
  initialise(tensor, 1, 0, whole);
  initialise(tensor, 2, 0, other_seed, 2);
  EXPECT_NE(whole, other_seed);
  for (std::int64_t first = 0; first < 63; ++first) {
    for (std::int64_t count : {std::int64_t{1}, std::int64_t{2}, 63 - first}) {
      if (first + count > 63) continue;
      std::vector<float> part(static_cast<std::size_t>(count));
      initialise(tensor, 1, first, part);
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(part[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(first + i)]);
    }
  }
}

TEST(Parameters, ImpossibleShapesAreRefusedWithTheirNumbers) {
  try {
    check_shape({.layers = 2, .channels = 100, .heads = 3, .context = 4, .vocab = 8});
    FAIL();
  } catch (const DeckError& e) {
    EXPECT_NE(std::string(e.what()).find("99 or 102"), std::string::npos) << e.what();
  }
  EXPECT_THROW(check_shape({.layers = 2, .channels = 4, .heads = 1, .context = 0, .vocab = 8}), DeckError);
}

}  // namespace
}  // namespace pipefill
