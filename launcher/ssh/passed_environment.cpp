#include "launcher/ssh/passed_environment.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/trimmed.hpp"

namespace ddprun::launcher {
namespace {

// Where programs and libraries are, what the libraries of training read, and what ddprun reads.
// Not what belongs to a machine or a session: HOME, HOSTNAME, TMPDIR, XDG_*, SSH_*.
constexpr std::array<std::string_view, 41> kPassed = {
    "PATH",          "LD_LIBRARY_PATH",
    "LD_PRELOAD",    "LIBRARY_PATH",
    "PYTHON*",       "VIRTUAL_ENV",
    "CONDA_*",       "PYENV_*",
    "CUDA_*",        "NVIDIA_*",
    "NCCL_*",        "CUDNN_*",
    "CUBLAS_*",      "OMP_*",
    "MKL_*",         "OPENBLAS_*",
    "NUMEXPR_*",     "KMP_*",
    "GLOO_*",        "UCX_*",
    "FI_*",          "IBV_*",
    "OMPI_MCA_*",    "TORCH*",
    "PYTORCH_*",     "TRITON_*",
    "TP_*",          "HF_*",
    "HUGGINGFACE_*", "TRANSFORMERS_*",
    "DEEPSPEED_*",   "DS_*",
    "WANDB_*",       "MLFLOW_*",
    "TQDM_*",        "LANG",
    "LC_*",          "TERM",
    "NO_COLOR",      "PET_*",
    "DDPRUN_*",
};

/// Never passed on: variables of the launcher itself, or of a job around it.
constexpr std::array<std::string_view, 8> kKept = {
    "DDPRUN_SSH",   "DDPRUN_SECRET_FILE",   "DDPRUN_SOCKET",         "DDPRUN_ROUND",
    "DDPRUN_EPOCH", "DDPRUN_PROGRESS_FILE", "DDPRUN_MAX_WORLD_SIZE", "TORCHELASTIC_ERROR_FILE",
};

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_name(std::string_view text) {
  if (text.empty() || (text.front() >= '0' && text.front() <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

}  // namespace

std::span<const std::string_view> passed_by_default() { return kPassed; }

LaunchResult<std::vector<std::string>> passed_environment(const Environment& environment,
                                                          std::string_view pass_env) {
  std::map<std::string, std::string> passed;
  const auto take = [&](std::string_view pattern) {
    for (const auto& [name, value] : environment) {
      if (matches(pattern, name)) passed.emplace(name, value);
    }
  };
  for (const std::string_view pattern : kPassed) take(pattern);
  for (const std::string_view name : kKept) passed.erase(std::string(name));
  while (!pass_env.empty()) {
    const auto comma = std::min(pass_env.find(','), pass_env.size());
    const std::string_view word = trimmed(pass_env.substr(0, comma));
    pass_env.remove_prefix(std::min(comma + 1, pass_env.size()));
    if (word.empty()) continue;
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (!is_name(name.ends_with('*') ? name.substr(0, name.size() - 1) : name) ||
        (name.ends_with('*') && equals != std::string_view::npos))
      return usage_error(fmt::format(
          "--pass-env: {}: expected NAME, PREFIX* or NAME=VALUE with commas between", word));
    if (equals == std::string_view::npos) {
      take(name);
    } else {
      passed.insert_or_assign(std::string(name), std::string(word.substr(equals + 1)));
    }
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : passed) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

}  // namespace ddprun::launcher
