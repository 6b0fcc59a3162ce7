#include "tests/emulated_gpu/emulated_gpus.hpp"

#include <cstdlib>
#include <filesystem>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "trainer/cuda/choose_gpu.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer::test {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

std::optional<std::size_t> free_setting() {
  if (std::getenv("DDPRUN_EMULATED_FREE") == nullptr) return std::nullopt;
  return setting("DDPRUN_EMULATED_FREE", 0);
}

/// WORK where the variable is for this GPU; 0: it is not.
std::uint64_t work_of(const char* name, int number) {
  const char* const value = std::getenv(name);
  const std::string text = value == nullptr ? "" : value;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || std::stoi(text) != number) return 0;
  return std::stoull(text.substr(colon + 1));
}

}  // namespace

EmulatedGpus::EmulatedGpus() : memory_(setting("DDPRUN_EMULATED_MEMORY", std::uint64_t{1} << 32)) {}

FoundGpu EmulatedGpus::find(const GpuQuestion& question) {
  const cuda::VisibleGpu one{.name = "emulated GPU", .capability = 90, .memory = memory_};
  const cuda::DriverFacts driver{.why_not = {},
                                 .version = 13000,
                                 .gpus = std::vector(setting("DDPRUN_EMULATED_GPUS", 8), one)};
  const cuda::GpuChoice choice = cuda::choose_gpu(driver, question.request);
  FoundGpu found;
  found.why_not = choice.why_not;
  found.workers = choice.workers;
  if (!found.why_not.empty()) return found;
  if (question.several_ranks) {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    auto opened = nccl::Library::open((folder / "libnccl_fake.so").string());
    if (!opened.library) throw DataError(opened.why);
    found.nccl = std::move(opened.library);
  }
  const auto number = static_cast<std::uint64_t>(choice.number);
  found.gpu = std::make_unique<EmulatedGpu>(
      EmulatedGpuSettings{.seed = setting("DDPRUN_EMULATED_SEED", 1) + number,
                          .memory = memory_,
                          .used = setting("DDPRUN_EMULATED_USED", 0),
                          .free = free_setting(),
                          .number = choice.number,
                          .fails_at = work_of("DDPRUN_EMULATED_FAILS", choice.number),
                          .hangs_at = work_of("DDPRUN_EMULATED_HANGS", choice.number),
                          .blocks_at = work_of("DDPRUN_EMULATED_BLOCKS", choice.number),
                          .captures = setting("DDPRUN_EMULATED_CAPTURES", 1) != 0,
                          .tf32 = question.tf32});
  return found;
}

}  // namespace ddprun::trainer::test
