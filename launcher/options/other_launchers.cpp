#include "launcher/options/other_launchers.hpp"

#include <algorithm>
#include <array>

#include "base/shell_word.hpp"

namespace ddprun::launcher {
namespace {

/// What is typed as the value of an option.
enum class Value { number, numbers, text };

/// An option that has another name here.
struct Renamed {
  std::string_view name;
  std::string_view here;
  std::string_view placeholder = "N";  ///< shown where no value was typed
  Value takes = Value::number;
  std::string_view before = {};  ///< stands before the value here
};

// Options of torch.distributed, accelerate, deepspeed, mpirun, horovodrun, srun, and guesses.
constexpr std::array kRenamed = {
    Renamed{"num-processes", "nproc-per-node"},
    Renamed{"num-procs", "nproc-per-node"},
    Renamed{"nprocs", "nproc-per-node"},
    Renamed{"np", "nproc-per-node"},
    Renamed{"processes", "nproc-per-node"},
    Renamed{"processes-per-node", "nproc-per-node"},
    Renamed{"npernode", "nproc-per-node"},
    Renamed{"ntasks-per-node", "nproc-per-node"},
    Renamed{"num-gpus", "nproc-per-node"},
    Renamed{"num-gpus-per-node", "nproc-per-node"},
    Renamed{"gpus-per-node", "nproc-per-node"},
    Renamed{"ngpus", "nproc-per-node"},
    Renamed{"ngpus-per-node", "nproc-per-node"},
    Renamed{"workers", "nproc-per-node"},
    Renamed{"num-workers", "nproc-per-node"},
    Renamed{"workers-per-node", "nproc-per-node"},
    Renamed{"num-nodes", "nnodes"},
    Renamed{"num-machines", "nnodes"},
    Renamed{"num-hosts", "nnodes"},
    Renamed{"machine-rank", "node-rank", "RANK"},
    Renamed{"main-process-ip", "master-addr", "HOST", Value::text},
    Renamed{"main-process-port", "master-port", "PORT"},
    Renamed{"gpu-ids", "gpus", "LIST", Value::numbers},
    Renamed{"num-cpu-threads-per-process", "omp-threads"},
    Renamed{"num-threads", "omp-threads"},
    Renamed{"threads", "omp-threads"},
    Renamed{"run-id", "rdzv-id", "ID", Value::text},
    Renamed{"job-name", "rdzv-id", "ID", Value::text},
    Renamed{"restarts", "max-restarts"},
    Renamed{"num-restarts", "max-restarts"},
    Renamed{"retries", "max-restarts"},
    Renamed{"max-retries", "max-restarts"},
    Renamed{"H", "hosts", "HOST,...", Value::text},
    Renamed{"machinefile", "hostfile", "FILE", Value::text},
    Renamed{"ssh-args", "ssh", "'ssh OPTIONS'", Value::text, "ssh "},
    Renamed{"x", "pass-env", "NAME", Value::text},
    Renamed{"env", "pass-env", "NAME", Value::text},
    Renamed{"output-filename", "log-dir", "FOLDER", Value::text},
    Renamed{"output-dir", "log-dir", "FOLDER", Value::text},
};

struct Instead {
  std::string_view name;
  std::string_view text;
};

constexpr std::array kInstead = {
    Instead{"multi-gpu", ": leave it out, --nproc-per-node=gpu is one worker for each GPU"},
    Instead{"cpu", "; did you mean --gpus=none?"},
    Instead{"no-cuda", "; did you mean --gpus=none?"},
    Instead{"min-np", "; did you mean --nnodes=MIN:MAX?"},
    Instead{"max-np", "; did you mean --nnodes=MIN:MAX?"},
    Instead{"min-nodes", "; did you mean --nnodes=MIN:MAX?"},
    Instead{"max-nodes", "; did you mean --nnodes=MIN:MAX?"},
    Instead{"no-local-rank", "; did you mean --local-rank-argument=none?"},
    Instead{"enable-each-rank-log", "; did you mean --log-dir=FOLDER --tee=3?"},
    Instead{"bind-cores-to-rank", "; did you mean --numa-binding=node?"},
    Instead{"tag-output", ": leave it out, lines of several workers begin with their rank"},
    Instead{"timestamp-output", "; did you mean --log-line-prefix-template='${time} ${rank}: '?"},
    Instead{"allow-run-as-root", ": leave it out, ddprun does not ask for the user"},
    Instead{"oversubscribe", ": leave it out, CPUs may have several workers"},
    Instead{"v", "; did you mean --version (-V) or --log-level=debug?"},
    Instead{"verbose", "; did you mean --log-level=debug?"},
    Instead{"debug", "; did you mean --log-level=debug?"},
    Instead{"q", "; did you mean --log-level=error?"},
    Instead{"quiet", "; did you mean --log-level=error?"},
};

constexpr std::string_view kWhatToType = "docs/torchrun.md, \"Tools that start torchrun\"";

constexpr std::array<std::string_view, 9> kOfOthers = {
    "use-deepspeed", "use-fsdp", "config-file", "include",         "exclude",
    "launcher",      "strategy", "accelerator", "use-megatron-lm",
};

/// Beginnings of names.
constexpr std::array<std::string_view, 4> kBeginningsOfOthers = {"dynamo-", "fsdp-", "deepspeed-",
                                                                 "megatron-lm-"};

bool is_of_others(std::string_view name) {
  return std::find(kOfOthers.begin(), kOfOthers.end(), name) != kOfOthers.end() ||
         std::any_of(kBeginningsOfOthers.begin(), kBeginningsOfOthers.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

constexpr std::string_view kLeaveOut = "; leave the word out: ddprun [OPTIONS] PROGRAM";

bool is_launcher_module(std::string_view module) {
  return module == "torch.distributed.run" || module == "torch.distributed.launch";
}

/// Other launchers have the number of all workers there.
bool may_be_of_all_nodes(std::string_view name) {
  return name == "np" || name == "nprocs" || name == "num-procs" || name == "num-processes" ||
         name == "processes" || name == "workers" || name == "num-workers";
}

/// Null: it has none of another name.
const Renamed* renamed_option(std::string_view name) {
  const auto* renamed = std::find_if(kRenamed.begin(), kRenamed.end(),
                                     [&](const Renamed& entry) { return entry.name == name; });
  return renamed == kRenamed.end() ? nullptr : renamed;
}

/// mpirun's --bind-to.
std::string instead_of_binding(std::string_view value) {
  if (value == "none") return ": leave it out, without --numa-binding workers are not bound";
  std::string_view here = "node";
  if (value == "socket" || value == "package") here = "socket";
  if (value == "l3cache") here = "core-complex";
  return "; did you mean --numa-binding=" + std::string(here) + "?";
}

bool is_python(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return name == "python" || name.starts_with("python3");
}

}  // namespace

bool may_be_value_of(std::string_view name, std::string_view word) {
  if (name == "mixed-precision" || name == "bind-to") return true;
  const Renamed* renamed = renamed_option(name);
  if (renamed == nullptr) return false;
  switch (renamed->takes) {
    case Value::number:
      return word.find_first_not_of("0123456789") == std::string_view::npos;
    case Value::numbers:
      return word == "all" || word.find_first_not_of("0123456789,") == std::string_view::npos;
    case Value::text:
      return true;
  }
  return false;
}

std::string mpirun_workers(std::string_view token, std::string_view next_word) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!token.starts_with("-n")) return "";
  const std::string_view rest = token.substr(token.starts_with("-np") ? 3 : 2);
  if (is_number(rest)) return std::string(rest);
  if (!rest.empty()) return "";
  return is_number(next_word) ? std::string(next_word) : "N";
}

std::string instead_of_option(std::string_view name, std::string_view value) {
  if (const Renamed* renamed = renamed_option(name)) {
    return "; did you mean --" + std::string(renamed->here) + "=" +
           (value.empty() ? std::string(renamed->placeholder)
                          : shell_word(std::string(renamed->before) + std::string(value))) +
           "?" + (may_be_of_all_nodes(name) ? " (workers of each node)" : "");
  }
  const auto instead = std::find_if(kInstead.begin(), kInstead.end(),
                                    [&](const Instead& entry) { return entry.name == name; });
  if (instead != kInstead.end()) return std::string(instead->text);
  if (name == "bind-to") return instead_of_binding(value);
  if (name == "mixed-precision") {
    return ": set ACCELERATE_MIXED_PRECISION=" +
           (value.empty() ? std::string("bf16") : shell_word(value)) + " before ddprun instead";
  }
  if (is_of_others(name))
    return " of another launcher: what to type is in " + std::string(kWhatToType);
  return "";
}

std::string instead_of_command(std::string_view word) {
  if (word == "help") return "; ddprun --help shows all options, ddprun -h the most common ones";
  if (word == "version") return "; did you mean ddprun --version?";
  if (word == "launch" || word == "run")
    return std::string(kLeaveOut) + " (other launchers' options: " + std::string(kWhatToType) + ")";
  if (word == "accelerate" || word == "deepspeed" || word == "fabric" || word == "tune")
    return "; what to type instead of its command is in " + std::string(kWhatToType);
  return "";
}

std::string launcher_as_program(std::string_view program, const std::vector<std::string>& arguments,
                                bool is_module) {
  std::string words;
  if (program == "torchrun") {
    words = "torchrun";
  } else if (is_module && is_launcher_module(program)) {
    words = "-m " + std::string(program);
  } else if (is_python(program) && arguments.size() > 1 && arguments[0] == "-m" &&
             is_launcher_module(arguments[1])) {
    words = std::string(program) + " -m " + arguments[1];
  }
  if (words.empty()) return "";
  return words +
         " would start workers of its own in each worker: leave it out, ddprun takes the "
         "same options: ddprun [OPTIONS] PROGRAM" +
         (program == "torchrun" ? " (for a file of that name type ./torchrun)" : "");
}

}  // namespace ddprun::launcher
