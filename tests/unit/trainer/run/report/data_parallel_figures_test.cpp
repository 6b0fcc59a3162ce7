// The figures of DataParallel in the final report.
#include "trainer/run/report/data_parallel_figures.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("the table has each phase's time a step and its share, and each replica's peak") {
  DataParallelFigures figures{
      .steps = 4, .seconds = {}, .peak_bytes = {3'000'000, 1'500'000, 2'500'000}};
  figures[DataParallelPhase::broadcast] = 0.1;
  figures[DataParallelPhase::forward] = 0.2;
  figures[DataParallelPhase::update] = 0.1;
  CHECK(data_parallel_text(figures) ==
        "    phase    ms a step    share\n"
        "broadcast       25.000   25.0 %\n"
        "     read        0.000    0.0 %\n"
        "  scatter        0.000    0.0 %\n"
        "  forward       50.000   50.0 %\n"
        "   gather        0.000    0.0 %\n"
        "     loss        0.000    0.0 %\n"
        " backward        0.000    0.0 %\n"
        "   reduce        0.000    0.0 %\n"
        "   update       25.000   25.0 %\n"
        "  replica  peak memory\n"
        "        0       3.0 MB\n"
        "        1       1.5 MB\n"
        "        2       2.5 MB\n"
        "replica 0 holds 1.0 MB (50.0 %) more than the others do on average\n");
}

TEST_CASE("one replica holds no more than others, and a run of no steps has no times") {
  const DataParallelFigures alone{.steps = 0, .seconds = {}, .peak_bytes = {3'000'000}};
  CHECK(alone.excess_bytes() == 0);
  CHECK(data_parallel_text(alone) ==
        "  replica  peak memory\n"
        "        0       3.0 MB\n");
  const DataParallelFigures two{.steps = 0, .seconds = {}, .peak_bytes = {3'000'000, 2'000'000}};
  CHECK(two.excess_bytes() == 1'000'000);
  CHECK_THAT(data_parallel_text(two),
             Contains("replica 0 holds 1.0 MB (50.0 %) more than replica 1"));
}

}  // namespace
}  // namespace ddprun::trainer
