#include "trainer/run/report/data_parallel_figures.hpp"

#include <fmt/format.h>

#include <numeric>

namespace ddprun::trainer {
namespace {

/// With a tenth: replicas of small models differ by less than a megabyte.
std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

}  // namespace

double DataParallelFigures::excess_bytes() const {
  if (peak_bytes.size() < 2) return 0;
  const double others = std::accumulate(peak_bytes.begin() + 1, peak_bytes.end(), 0.0);
  return static_cast<double>(peak_bytes.front()) -
         others / static_cast<double>(peak_bytes.size() - 1);
}

std::string data_parallel_text(const DataParallelFigures& figures) {
  const double all = std::accumulate(figures.seconds.begin(), figures.seconds.end(), 0.0);
  std::string text;
  if (figures.steps > 0 && all > 0) {
    text += fmt::format("{:>9}  {:>11}  {:>7}\n", "phase", "ms a step", "share");
    for (std::size_t i = 0; i < figures.seconds.size(); ++i)
      text += fmt::format("{:>9}  {:>11.3f}  {:>5.1f} %\n", kDataParallelPhases[i],
                          1000 * figures.seconds[i] / static_cast<double>(figures.steps),
                          100 * figures.seconds[i] / all);
  }
  text += fmt::format("{:>9}  {:>11}\n", "replica", "peak memory");
  for (std::size_t i = 0; i < figures.peak_bytes.size(); ++i)
    text +=
        fmt::format("{:>9}  {:>11}\n", i, megabytes(static_cast<double>(figures.peak_bytes[i])));
  const double excess = figures.excess_bytes();
  if (excess > 0) {
    const double others = static_cast<double>(figures.peak_bytes.front()) - excess;
    text += fmt::format("replica 0 holds {} ({:.1f} %) more than {}\n", megabytes(excess),
                        100 * excess / others,
                        figures.peak_bytes.size() == 2 ? "replica 1" : "the others do on average");
  }
  return text;
}

}  // namespace ddprun::trainer
