#include "trainer/compute/upsample_ops.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace ddprun::trainer {
namespace {

TEST_CASE("an output pixel reads what half-pixel centres give it") {
  for (const int inputs : {1, 2, 7}) {
    for (int o = 0; o < 2 * inputs; ++o) {
      // PyTorch's rule, with the input's edges as the limits.
      const double at = (o + 0.5) / 2 - 0.5;
      std::vector<double> want(static_cast<std::size_t>(inputs));
      for (const int pixel : {static_cast<int>(std::floor(at)), static_cast<int>(std::ceil(at))}) {
        const int inside = std::min(std::max(pixel, 0), inputs - 1);
        want[static_cast<std::size_t>(inside)] += 1 - std::abs(at - pixel);
      }
      const UpsampleSource source = upsample_source(o, inputs);
      std::vector<double> got(static_cast<std::size_t>(inputs));
      got[static_cast<std::size_t>(source.near)] += static_cast<double>(upsample_mix(1, 0));
      got[static_cast<std::size_t>(source.far)] += static_cast<double>(upsample_mix(0, 1));
      INFO("output " << o << " of " << inputs << " inputs");
      CHECK(got == want);
    }
  }
}

TEST_CASE("an input pixel gathers from the outputs that read it, with the same weights") {
  const int inputs = GENERATE(1, 2, 3, 8);
  for (int i = 0; i < inputs; ++i) {
    std::vector<double> want(2 * static_cast<std::size_t>(inputs));
    for (int o = 0; o < 2 * inputs; ++o) {
      const UpsampleSource source = upsample_source(o, inputs);
      if (source.near == i) want[static_cast<std::size_t>(o)] += 0.75;
      if (source.far == i) want[static_cast<std::size_t>(o)] += 0.25;
    }
    std::vector<double> got(want.size());
    const UpsampleReaders readers = upsample_readers(i, inputs);
    for (int k = 0; k < 4; ++k) {
      got[static_cast<std::size_t>(readers.pixel[k])] += static_cast<double>(upsample_gather(
          k == 0 ? 1.0F : 0.0F, k == 1 ? 1.0F : 0.0F, k == 2 ? 1.0F : 0.0F, k == 3 ? 1.0F : 0.0F));
    }
    INFO("input " << i << " of " << inputs);
    CHECK(got == want);
  }
}

}  // namespace
}  // namespace ddprun::trainer
