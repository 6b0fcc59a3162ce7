#include "launcher/options/other_launchers.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun::launcher {
namespace {

/// Options that have one here under another name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kRenamed = {{
    {"num-processes", "nproc-per-node"},
    {"num-gpus", "nproc-per-node"},
    {"num-nodes", "nnodes"},
    {"num-machines", "nnodes"},
    {"machine-rank", "node-rank"},
    {"main-process-ip", "master-addr"},
    {"main-process-port", "master-port"},
    {"gpu-ids", "gpus"},
    {"num-cpu-threads-per-process", "omp-threads"},
    {"run-id", "rdzv-id"},
}};

constexpr std::string_view kWhatToType = "docs/torchrun.md, \"Tools that start torchrun\"";

constexpr std::array<std::string_view, 7> kOfOthers = {
    "dynamo-backend", "use-deepspeed", "use-fsdp", "config-file", "include", "exclude", "launcher",
};

}  // namespace

std::string instead_of_option(std::string_view name, std::string_view value) {
  const auto renamed = std::find_if(kRenamed.begin(), kRenamed.end(),
                                    [&](const auto& entry) { return entry.first == name; });
  if (renamed != kRenamed.end()) {
    return "; did you mean --" + std::string(renamed->second) + "=" +
           std::string(value.empty() ? "N" : value) + "?";
  }
  if (name == "multi-gpu") return ": leave it out, --nproc-per-node=gpu is one worker for each GPU";
  if (name == "cpu") return "; did you mean --gpus=none?";
  if (name == "mixed-precision") {
    return ": set ACCELERATE_MIXED_PRECISION=" + std::string(value.empty() ? "bf16" : value) +
           " before ddprun instead";
  }
  if (std::find(kOfOthers.begin(), kOfOthers.end(), name) != kOfOthers.end())
    return " of another launcher: what to type is in " + std::string(kWhatToType);
  return "";
}

std::string instead_of_command(std::string_view word) {
  if (word != "launch" && word != "run") return "";
  return "; leave the word out: ddprun [OPTIONS] PROGRAM (other launchers' options: " +
         std::string(kWhatToType) + ")";
}

}  // namespace ddprun::launcher
