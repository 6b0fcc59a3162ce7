#include "launcher/report/report_hints.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/endpoint.hpp"
#include "base/exit_codes.hpp"
#include "base/shell_word.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/options/option_table.hpp"
#include "launcher/report/screen_text.hpp"

namespace ddprun::launcher {
namespace {

using proto::EvidenceKind;

constexpr std::size_t kPathBytesShown = 400;

/// As a shell needs it to be typed.
std::string python_of(const std::string& environment) {
  return shell_word(environment + "/bin/python");
}

std::string about_python(const proto::ProgramFacts& facts) {
  if (facts.python.empty()) {
    return "is the module installed for this Python? PROGRAM, or its first line (#!), chooses it";
  }
  if (!facts.other_environment.empty() && facts.python_is_wanted) {
    return fmt::format(
        "the workers ran under {}, because PYTHON_EXEC names it, not under the active environment "
        "{}: unset PYTHON_EXEC, or type PYTHON_EXEC={} ddprun ...",
        facts.python, facts.other_environment, python_of(facts.other_environment));
  }
  if (!facts.other_environment.empty()) {
    return fmt::format(
        "the workers ran under {}, not under the active environment {}: type "
        "PYTHON_EXEC={} ddprun ..., or install ddprun there",
        facts.python, facts.other_environment, python_of(facts.other_environment));
  }
  return fmt::format(
      "the workers ran under {}: is the module installed there? (PYTHON_EXEC names another Python)",
      facts.python);
}

std::string about_signal(const proto::WorkerFailure& failure) {
  switch (failure.exit.value) {
    case SIGBUS:
      return "SIGBUS is mostly a full /dev/shm (docker run --shm-size), or a file that was cut "
             "while it was mapped";
    case SIGILL:
      return "SIGILL is mostly a program built for another CPU";
    case SIGKILL:
      return failure.evidence.kind == EvidenceKind::memory_kill || failure.stopped_by_us
                 ? ""
                 : "SIGKILL was not sent by ddprun: it came from the kernel's OOM killer, a "
                   "container's limit or a kill -9";
    case SIGABRT:
      return mentions(failure, {"terminate called without an active exception"})
                 ? "PyTorch sometimes aborts like this at exit: call "
                   "torch.distributed.destroy_process_group() at the end of the program"
                 : "";
    default:
      return "";
  }
}

/// Where Python prints nothing of a crash in a library that it called.
std::string about_crash_of_python(const proto::WorkerFailure& failure,
                                  const proto::ProgramFacts& facts) {
  constexpr std::array kCrashes = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
  const bool crashed =
      std::find(kCrashes.begin(), kCrashes.end(), failure.exit.value) != kCrashes.end();
  if (!crashed || failure.stopped_by_us || facts.python.empty() || facts.shows_crashes ||
      mentions(failure, {"Fatal Python error", "most recent call first", "Traceback (most recent",
                         "terminate called without an active exception"}))
    return "";
  return "PYTHONFAULTHANDLER=1 ddprun ... shows the Python lines where it crashed";
}

/// A debugger, or input(), reads the standard input also where the worker has none.
std::string about_stdin(const proto::FailedWorker& culprit, const proto::ProgramFacts& facts) {
  const bool debugger = mentions(culprit.failure, {"bdb.BdbQuit"});
  if (!debugger && !mentions(culprit.failure, {"EOFError: EOF when reading a line"})) return "";
  const bool none_has_it = facts.stdin_goes_to == "none";
  if (facts.stdin_goes_to == "all" || (!none_has_it && culprit.failure.local_rank == 0)) {
    return fmt::format("rank {} {}", culprit.rank,
                       debugger ? "was left in its debugger: by q, or because its stdin had ended"
                                : "read its stdin, which had ended");
  }
  return fmt::format("rank {} has no stdin{}, so {} ends there at once: {}, or type --stdin=all",
                     culprit.rank, none_has_it ? " because of --stdin=none" : "",
                     debugger ? "breakpoint()" : "input() or breakpoint()",
                     none_has_it ? "leave that option out and stop only local rank 0"
                                 : "stop only local rank 0 (if LOCAL_RANK is 0)");
}

/// Shells end with such a code if a program that they started was ended by a signal.
std::string about_signal_of_child(int code) {
  const int signal = code - kExitSignalBase;
  const auto killed = [&](std::string_view how) {
    return fmt::format("exit code {} is 128 + {}: mostly a program that the worker started {} {}",
                       code, signal, how, signal_name(signal));
  };
  switch (signal) {
    case SIGKILL:
      return killed("was killed by") +
             ", from the kernel's OOM killer, a container's limit or a kill -9";
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGSYS:
    case SIGTRAP:
      return killed("crashed with");
    case SIGHUP:
    case SIGINT:
    case SIGPIPE:
    case SIGTERM:
    case SIGXCPU:
      return killed("was ended by");
    default:
      return "";
  }
}

std::string about_exit_code(int code) {
  switch (code) {
    case kExitNotExecutable:
      return "exit code 126 mostly means that a shell script called a file it may not execute";
    case kExitNotFound:
      return "exit code 127 mostly means that a shell script called a program that is not on PATH";
    default:
      return about_signal_of_child(code);
  }
}

/// Whether the line has it as a whole: --output, and not --output-format.
bool has_option(std::string_view line, std::string_view option) {
  for (auto at = line.find(option); at != line.npos; at = line.find(option, at + 1)) {
    const std::string_view rest = line.substr(at + option.size());
    const bool ends = rest.empty() || (std::isalnum(static_cast<unsigned char>(rest[0])) == 0 &&
                                       rest[0] != '-' && rest[0] != '_');
    if (ends) return true;
  }
  return false;
}

/// What argparse, click and others write of an option that they do not know.
bool is_unknown(const proto::WorkerFailure& failure, const std::string& option) {
  constexpr std::array<std::string_view, 5> kWords = {
      "nrecognized", "o such option", "nknown option", "nknown argument", "nknown flag"};
  const auto& lines = failure.last_lines;
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return has_option(line, option) &&
           std::any_of(kWords.begin(), kWords.end(), [&](std::string_view words) {
             return line.find(words) != std::string::npos;
           });
  });
}

/// Tells of an option of ddprun that stands behind a program which does not know it.
std::string about_misplaced_option(const proto::WorkerFailure& failure,
                                   const proto::ProgramFacts& facts) {
  for (const std::string& typed : facts.arguments) {
    const OptionRow* option = option_spelled(typed);
    if (option == nullptr) continue;
    const bool was_read = !failure.last_lines.empty();
    if (was_read ? !is_unknown(failure, typed) : !only_launchers_have(*option)) continue;
    return fmt::format(
        "{0} stands behind {1}, so ddprun passed it to {1}; options of ddprun stand before the "
        "program",
        typed, on_screen(facts.program, kPathBytesShown));
  }
  return "";
}

/// PyTorch names the place to which it could not connect.
std::string about_store(const agent::AgentResult& result, const proto::WorkerFailure& failure,
                        const proto::ProgramFacts& facts) {
  if (result.last_round.nodes < 2 || !mentions(failure, {"client socket has "}) ||
      !mentions(failure, {fmt::format(", {})", result.last_round.store_port)}))
    return "";
  return fmt::format(
      "its node cannot reach the workers' store at {}: open that port between the nodes{}",
      to_string(Endpoint(result.last_round.store_addr, result.last_round.store_port)),
      facts.chooses_store_port
          ? ", or let ddprun choose one that is open, with --port-range=FIRST:LAST"
          : "");
}

}  // namespace

bool mentions(const proto::WorkerFailure& failure, std::initializer_list<std::string_view> texts) {
  const auto has = [&](const std::string& line) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](std::string_view text) { return line.find(text) != std::string::npos; });
  };
  return has(failure.evidence.text) ||
         std::any_of(failure.last_lines.begin(), failure.last_lines.end(), has);
}

std::string usage_text(const proto::WorkerFailure& culprit) {
  const bool of_a_child = culprit.exit == ExitStatus{false, kExitSignalBase + SIGKILL, false};
  const bool killed =
      (culprit.exit == ExitStatus{true, SIGKILL, false} || of_a_child) && !culprit.stopped_by_us;
  const bool memory =
      mentions(culprit, {"MemoryError", "bad_alloc", "allocate memory"}) &&
      !mentions(culprit, {"CUDA out of memory", "CUDA error: out of memory", "HIP out of memory"});
  if (!culprit.used || !(killed || memory || culprit.evidence.kind == EvidenceKind::hang))
    return "";
  return fmt::format("ddprun: its peak memory: {}; its CPU time: {}\n",
                     describe_bytes(culprit.used->peak_memory_bytes),
                     describe(culprit.used->cpu_time));
}

std::string output_above_text(const agent::AgentResult& result,
                              const proto::WorkerFailure& culprit) {
  const bool may_have_said = culprit.error.empty() && culprit.evidence.text.empty() &&
                             culprit.last_lines.empty() && !culprit.exit.by_signal &&
                             culprit.exit.value < kExitSignalBase;
  if (!result.culprit.output_above || !may_have_said) return "";
  return "ddprun: its stderr went directly to this terminal: look above (--output=prefix copies it "
         "into this report)\n";
}

std::vector<std::string> hints(const agent::AgentResult& result, const proto::Verdict& verdict) {
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  const proto::ProgramFacts facts = verdict.program.value_or(proto::ProgramFacts{});
  std::vector<std::string> found;
  const auto add = [&found](std::string hint) {
    if (!hint.empty()) found.push_back(std::move(hint));
  };
  if (!result.output.full_disk.empty())
    add(on_screen(result.output.full_disk, kPathBytesShown) + ": that may be the cause");
  if (mentions(culprit, {"No module named"})) add(about_python(facts));
  add(about_stdin(verdict.culprit, facts));
  if (mentions(culprit, {"CUDA out of memory", "CUDA error: out of memory"})) {
    add("the GPU's memory was full: try a smaller batch, and look with nvidia-smi for other "
        "processes on this GPU");
  }
  if (culprit.exit.by_signal) {
    add(about_signal(culprit));
    add(about_crash_of_python(culprit, facts));
  } else if (culprit.error.empty() && !culprit.stopped_by_us) {
    add(about_exit_code(culprit.exit.value));
    if (culprit.exit.value == kExitUsage) add(about_misplaced_option(culprit, facts));
  }
  add(about_store(result, culprit, facts));
  if (result.last_round.newer_store_clients)
    add("the workers' PyTorch is newer than this ddprun: --worker-store=rank0");
  if (mentions(culprit, {"built without libuv", "build without libuv"}))
    add("this PyTorch has no libuv: set USE_LIBUV=0 and use --worker-store=rank0");
  return found;
}

}  // namespace ddprun::launcher
