// The GPUs of this machine: the plugin beside train, the driver, and the libraries.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/program_folder.hpp"
#include "trainer/cuda/choose_gpu.hpp"
#include "trainer/cuda/driver.hpp"
#include "trainer/cuda/library_search.hpp"
#include "trainer/cuda/python_folders.hpp"
#include "trainer/run/plan/gpus.hpp"

namespace ddprun::trainer {
namespace {

cuda::LibraryPlaces places_beside(const std::string& folder) {
  return cuda::library_places([](const char* name) { return std::getenv(name); }, folder,
                              [] { return cuda::python_package_folders(); });
}

}  // namespace

MachineGpus::MachineGpus() : MachineGpus(program_folder().string()) {}

FoundGpu MachineGpus::find(const GpuQuestion& question) {
  const auto refuse = [](std::string why, bool nothing_there = false) {
    FoundGpu found;
    found.why_not = std::move(why);
    found.nothing_there = nothing_there;
    return found;
  };
  if (question.only_if_likely && !cuda::driver_likely())
    return refuse("no NVIDIA driver was found", true);
  const cuda::OpenedPlugin opened = cuda::open_plugin(folder_);
  if (!opened.why_not.empty()) return refuse(opened.why_not);
  const cuda::DriverFacts driver =
      cuda::ask_driver(cuda::kDriverLibrary, {.warn = [&](const std::string& text) {
                         std::fprintf(stderr, "train: warning: local rank %d: %s\n",
                                      question.request.local_rank, text.c_str());
                       }});
  const cuda::GpuChoice choice = cuda::choose_gpu(driver, question.request);
  if (!choice.why_not.empty()) return refuse(choice.why_not);
  std::string why =
      cuda::why_kernels_do_not_run(driver, driver.gpus[static_cast<std::size_t>(choice.number)],
                                   opened.plugin.cuda, opened.plugin.architectures);
  if (!why.empty()) return refuse(std::move(why));
  FoundGpu found;
  if (question.several_ranks) {
    nccl::Library::Opened nccl = nccl::Library::find(places_beside(folder_), opened.plugin.cuda);
    if (!nccl.library) return refuse(std::move(nccl.why));
    found.nccl = std::move(nccl.library);
  }
  found.gpu = opened.plugin.open({.number = choice.number,
                                  .deterministic = question.deterministic,
                                  .tf32 = question.tf32,
                                  .places = places_beside(folder_)});
  found.workers = choice.workers;
  return found;
}

std::string MachineGpus::versions() {
  const cuda::OpenedPlugin opened = cuda::open_plugin(folder_);
  if (!opened.why_not.empty()) return fmt::format("GPUs: not used: {}\n", opened.why_not);
  std::string text =
      fmt::format("GPUs: {}, CUDA {}, architectures {}\n", opened.path,
                  cuda::cuda_version_text(opened.plugin.cuda), opened.plugin.architectures);
  const cuda::LibraryPlaces places = places_beside(folder_);
  for (const cuda::OpenedLibrary& library : opened.plugin.libraries(places))
    text += fmt::format("  {}\n", library.path.empty()
                                      ? library.why
                                      : fmt::format("{}, {}", library.name, library.path));
  const nccl::Library::Opened nccl = nccl::Library::find(places, opened.plugin.cuda);
  text += nccl.library ? fmt::format("  NCCL {}, {}\n", nccl::version_text(nccl.library->version()),
                                     nccl.library->path())
                       : fmt::format("  {}\n", nccl.why);
  return text;
}

}  // namespace ddprun::trainer
